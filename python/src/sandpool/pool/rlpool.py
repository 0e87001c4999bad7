"""A pool of environments: one object, batched calls."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sandpool.discovery import find_server
from sandpool.errors import InvalidTypeError
from sandpool.escape import escape_untrusted
from sandpool.pool.actions import read_actions
from sandpool.pool.branches import Branches
from sandpool.pool.branching import BranchedPool
from sandpool.pool.create import create_pool
from sandpool.pool.infos import Infos
from sandpool.pool.options import check_choice, check_name, check_options, refuse_unknown_options
from sandpool.pool.replies import mark_skipped
from sandpool.pool.report import Reporter
from sandpool.pool.requests import encode_arguments, encode_values
from sandpool.pool.result import CallResult, RowErrors, StepResult
from sandpool.pool.selection import select_rows
from sandpool.pool.timeouts import Timeouts
from sandpool.pool.timing import Timing
from sandpool.transport.server import Server
from sandpool.warn import warn_user
from sandpool.wire.message import CONTENT_TYPE, decode_message

T = TypeVar("T")


class RLPool(BranchedPool):
    """N isolated environments behind one batched call.

    Args:
        env_dir: folder with ``env.py`` or an executable ``env``, or the path of one program.
        n: number of environments, the rows of every batch.
        seed: pool seed P; each row's seeds are derived from it. None: random, shown in the description.
        autoreset: None, ``"same_step"``, ``"next_step"``, or ``"auto"``: a vectorised environment's own, any other's ``"same_step"``.
        seeds: ``"derived"`` (a run is reproducible) or ``"continue"`` (only the first reset is seeded).
        errors: ``"rows"`` (a failed row is a row, with one warning for each kind) or ``"raise"``.
        start: ``"auto"``, ``"fork"`` or ``"spawn"``.
        isolation: driver of the sandboxes: ``"namespace"``, or ``"gvisor"``, a kernel of its own around the environments.
        shards: number of sandboxes, or ``"auto"``: one, so that any row can be copied onto any other, up to 1,024 processes; about one a
            core above, or with ``branching=False``.
        envs_per_process: how many rows share a process, or ``"auto"``: as many as pays at the environment's speed.
        python: interpreter of ``*.py`` programs, inside the image.
        env: environment variables.
        config: dict given to every environment, or a list of n dicts.
        image: root filesystem.
        network: whether environments reach the network.
        memory: for each environment, bytes or text such as ``"2GiB"``.
        workspace: likewise, its private files.
        step_timeout: seconds for a row's step; likewise `reset_timeout`, `start_timeout`, `call_timeout`.
        in_flight: rows dispatched at once, or None for all.
        first_reset: whether creation resets every environment, with the result in `initial_obs`.
        branching: whether rows can be forked and saved; False drops every capability in them, and divides the pool over the cores.
        lease: seconds without a sign of life after which the server closes the pool; this object gives one from a thread.
        name: a name to find the pool by.
        progress: ``"auto"`` (a bar when stderr is a terminal), True or False.
        url: the server's; None: SANDPOOL_URL, else the credentials file of `sandpool up`.
        api_key: its key; None: SANDPOOL_API_KEY, else the credentials file.

    Raises:
        SandpoolError: see `sandpool.errors`; a fault of one environment is an EnvironmentFailedError and leaves nothing behind.

    Example:
        >>> with RLPool("envs/cartpole", 64, seed=0) as pool:  # doctest: +SKIP
        ...     observations = pool.reset()
        ...     observations, rewards, dones, infos = pool.step([0] * 64)
    """

    initial_obs: Any = None

    @refuse_unknown_options
    def __init__(
        self,
        env_dir: str | os.PathLike[str],
        n: int,
        *,
        seed: int | None = None,
        autoreset: str | None = None,
        seeds: str = "derived",
        errors: str = "rows",
        start: str = "auto",
        isolation: str = "namespace",
        shards: int | str = "auto",
        envs_per_process: int | str = 1,
        python: str = "/usr/bin/python3",
        env: Mapping[str, str] = {},
        config: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        image: str = "host",
        network: bool = False,
        memory: int | str = "2GiB",
        workspace: int | str = "1GiB",
        step_timeout: float = 30,
        reset_timeout: float = 60,
        start_timeout: float = 120,
        call_timeout: float = 30,
        in_flight: int | None = None,
        first_reset: bool = True,
        branching: bool = True,
        lease: float = 600,
        name: str | None = None,
        progress: str | bool = "auto",
        url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "env_dir", "n")}
        check_options(n, options)
        if not isinstance(env_dir, (str, os.PathLike)):
            raise InvalidTypeError(f"env_dir is of type {type(env_dir).__name__}; expected the path of a folder or a program.")
        server = Server(find_server(url, api_key))
        description = create_pool(server, Path(os.fspath(env_dir)), n, options)
        self._adopt(server, description, Timeouts.of_options(options, n), owned=True, raises=errors == "raise")
        if first_reset:
            self.initial_obs = self.batches.observations.last()
        for warning in description.get("warnings", []):
            warn_user(escape_untrusted(str(warning)))

    @classmethod
    @refuse_unknown_options
    def attach(cls, pool_id: str, *, errors: str = "rows", url: str | None = None, api_key: str | None = None) -> RLPool:
        """Attach to a pool that exists, by id or name; as a context manager it detaches at the end instead of closing."""
        check_choice("errors", errors)
        check_name("pool_id", pool_id)
        server = Server(find_server(url, api_key))
        description = server.request_json("GET", ("pools", pool_id))
        pool = cls.__new__(cls)
        pool._adopt(server, description, Timeouts.of_limits(description), owned=False, raises=errors == "raise")
        return pool

    def _adopt(self, server: Server, description: dict[str, Any], timeouts: Timeouts, *, owned: bool, raises: bool) -> None:
        self._hold(server, description, timeouts, owned=owned)
        self._reporter = Reporter(raises=raises)
        self.batches = Branches(self._channel, timeouts, description["layout"], self.n)
        try:
            self._read_observations()
        except BaseException:
            self._finalizer()
            raise

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """The info of each row's last reset, n dicts."""
        return self.batches.reset_infos

    @property
    def errors(self) -> RowErrors:
        """The errors of the rows that failed in the last batch, by row."""
        return self.batches.errors

    @property
    def timing(self) -> Timing:
        """How long batches took."""
        return self.batches.timing

    # Batches

    def reset(self, seed: int | Sequence[int | None] | None = None, *, where: Any = None, hard: bool = False, options: Any = None) -> Any:
        """Reset environments and return observations, n rows.

        Args:
            seed: None, an integer s (row i gets s+i), or a list of n integers or None.
            where: bool mask ``(n,)`` or row indices; the other rows keep their last observation.
            hard: kill the process, wipe its workspace and start it anew first.
            options: dict given to every environment, or a list of n dicts.

        The infos are in `reset_infos`, failed rows in `errors`.
        """
        self._check_open()
        selection = select_rows(where, self.n)
        return self._reported(self.batches.reset(seed, options, hard, selection).obs)

    def step(self, actions: Any, where: Any = None) -> StepResult:
        """Step environments: ``obs, rewards, dones, infos = pool.step(actions)``, n rows each.

        Args:
            actions: array or list with one action for each selected row, in the order of `where`, or one for each of the n rows.
            where: bool mask ``(n,)`` or row indices; the other rows are not stepped.

        Raises:
            InvalidValueError, InvalidTypeError: wrong count, shape or type; nothing was sent.
            RowsFailedError: a row failed, only with ``errors="raise"``.
        """
        self._check_open()
        selection = select_rows(where, self.n)
        chosen = read_actions(actions, selection, self.n, self.action_space)
        batch = self.batches.step(chosen, selection)
        infos = Infos(batch.infos, self.n)
        mark_skipped(infos, selection)
        return self._reported(StepResult.of(batch.obs, batch.rewards, batch.terminated, batch.truncated, infos, batch.errors))

    def call(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, where: Any = None, timeout: float | None = None
    ) -> CallResult:
        """Call a method of each selected environment and return n results, None for rows that failed or were not selected.

        A call that raises leaves its environment as it is; the error is in the result's `errors`.
        """
        return self._call("call", name, where, timeout, encode_arguments(args, kwargs))

    def get_attr(self, name: str, where: Any = None) -> CallResult:
        """Get an attribute of each selected environment, through its wrappers."""
        return self._call("get", name, where, None, {})

    def set_attr(self, name: str, values: Any, where: Any = None) -> CallResult:
        """Set an attribute of each selected environment: a list or tuple has one value for each of them, anything else is for all."""
        return self._call("set", name, where, None, encode_values(values, select_rows(where, self.n)))

    def has_attr(self, name: str, where: Any = None) -> CallResult:
        """Whether each selected environment has an attribute."""
        return self._call("has", name, where, None, {})

    def is_wrapped(self, class_path: str, where: Any = None) -> CallResult:
        """Whether each selected environment is wrapped by a class, named by its path such as ``gymnasium.wrappers.TimeLimit``."""
        return self._call("wrapped", class_path, where, None, {})

    def _call(self, call: str, name: str, where: Any, timeout: float | None, free: dict[str, bytes]) -> CallResult:
        self._check_open()
        return self._reported(self.batches.call(call, name, select_rows(where, self.n), timeout, free))

    def _reported(self, result: T) -> T:
        if self.errors:
            self._reporter.report(self.errors, result)
        return result

    def _read_observations(self) -> None:
        reply = self._server.request_bytes("GET", ("pools", self.id, "observations"), accept=CONTENT_TYPE)
        message = decode_message(np.frombuffer(bytearray(reply), np.uint8))
        if message.fields:
            self.batches.take_first(message)
