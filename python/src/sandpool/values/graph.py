"""Gymnasium's GraphInstance, for observations of graph spaces."""

from __future__ import annotations

from typing import Any, NamedTuple


class GraphInstance(NamedTuple):
    """Nodes ``(n, …)``, edges ``(m, …)`` or None, and the edges' end points ``(m, 2)`` or None.

    The fields are those of ``gymnasium.spaces.GraphInstance``, which is a named tuple too, so that gymnasium need not be installed.
    """

    nodes: Any
    edges: Any
    edge_links: Any
