"""A pool of environments: one object, batched calls."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from sandpool.discovery import ServerAddress, find_server, parse_url
from sandpool.errors import (
    InvalidTypeError,
    NotFoundError,
    PoolClosedError,
    PoolLostError,
    SandpoolError,
    SandpoolWarning,
)
from sandpool.escape import escape_untrusted
from sandpool.pool.actions import read_actions
from sandpool.pool.channel import BatchChannel
from sandpool.pool.create import create_pool
from sandpool.pool.lease import Lease
from sandpool.pool.observations import ArrayObservations, ListObservations, make_observations
from sandpool.pool.options import check_choice, check_name, check_options, check_row, check_seconds, refuse_unknown_options
from sandpool.pool.replies import column_of, infos_of, mark_skipped, results_of
from sandpool.pool.report import Reporter, collect_errors
from sandpool.pool.requests import call_request, encode_arguments, encode_values, reset_request, step_request
from sandpool.pool.result import CallResult, RowErrors, StepResult
from sandpool.pool.selection import Selection, select_rows
from sandpool.pool.timeouts import Timeouts
from sandpool.pool.timing import Timing
from sandpool.transport.local_socket import local_socket
from sandpool.transport.server import Server
from sandpool.wire.message import CONTENT_TYPE, Message, decode_message

T = TypeVar("T")


class RLPool:
    """N isolated environments behind one batched call.

    Args:
        env_dir: folder with ``env.py`` or an executable ``env``, or the path of one program.
        n: number of environments, the rows of every batch.
        seed: pool seed P; each row's seeds are derived from it. None: random, shown in the description.
        autoreset: None, ``"same_step"`` or ``"next_step"``.
        seeds: ``"derived"`` (a run is reproducible) or ``"continue"`` (only the first reset is seeded).
        errors: ``"rows"`` (a failed row is a row, with one warning for each kind) or ``"raise"``.
        start: ``"auto"``, ``"fork"`` or ``"spawn"``.
        isolation: driver of the sandboxes.
        shards: number of sandboxes, or ``"auto"``.
        envs_per_process: 1 in this version.
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
        branching: whether environments may fork.
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
    _observations: ArrayObservations | ListObservations

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
        envs_per_process: int = 1,
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
            self.initial_obs = self._observations.last()
        for warning in description.get("warnings", []):
            warnings.warn(escape_untrusted(str(warning)), SandpoolWarning, stacklevel=3)

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
        self.description = description
        self.id: str = description["id"]
        self.n: int = description["n"]
        self.timing = Timing()
        self.errors: RowErrors = {}
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.n)]
        self._server = server
        self._owned = owned
        self._timeouts = timeouts
        self._reporter = Reporter(raises=raises)
        self._observations = make_observations(description["layout"], self.n)
        address = _step_address(server.address, description)
        self._channel = BatchChannel(address, self.id, description["next_seq"], local_socket(server.address, description))
        self._lease = Lease(server, self.id, float(description["lease"]["seconds"]))
        self._finalizer = weakref.finalize(self, self._lease.abandon, owned)
        try:
            self._read_observations()
        except BaseException:
            self._finalizer()
            raise

    # What the pool is

    @property
    def name(self) -> str | None:
        """The pool's name, or None."""
        return self.description["name"]  # type: ignore[no-any-return]

    @property
    def observation_space(self) -> dict[str, Any] | None:
        """The announced observation space of one environment as a plain dict, or None; see `sandpool.spaces.to_gymnasium`."""
        return self.description["observation_space"]  # type: ignore[no-any-return]

    @property
    def action_space(self) -> dict[str, Any] | None:
        """The announced action space of one environment as a plain dict, or None."""
        return self.description["action_space"]  # type: ignore[no-any-return]

    @property
    def closed(self) -> bool:
        """Whether this object was closed or detached."""
        return not self._finalizer.alive

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
        content_type, encode = reset_request(seed, options, hard, selection, self.n)
        if selection.count == 0:
            self.errors = {}
            return self._observations.last()

        def absorb(message: Message) -> Any:
            infos = infos_of(message, self.n)
            for row in selection.indices():
                self.reset_infos[row] = infos[row]
            return self._absorb_observations(message, selection, infos)

        return self._reported(self._exchange("reset", content_type, encode, absorb, self._timeouts.reset_s))

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
        if selection.count == 0:
            self.errors = {}
            return self._untouched()
        content_type, encode = step_request(chosen, selection)

        def absorb(message: Message) -> StepResult:
            infos = infos_of(message, self.n)
            observations = self._absorb_observations(message, selection, infos)
            rewards, terminated, truncated = (
                column_of(message, name, dtype, selection.rows, self.n)
                for name, dtype in (("rewards", np.float64), ("terminated", np.bool_), ("truncated", np.bool_))
            )
            mark_skipped(infos, selection)
            return StepResult.of(observations, rewards, terminated, truncated, infos, self.errors)

        return self._reported(self._exchange("step", content_type, encode, absorb, self._timeouts.step_s))

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

    # Everything else

    def status(self, memory: bool = True) -> dict[str, Any]:
        """Return the pool's description, its rows' states and counters; with `memory` also their sizes, and how they were sampled."""
        self._check_open()
        query = {"memory": "true"} if memory else None
        return self._server.request_json("GET", ("pools", self.id), query=query)  # type: ignore[no-any-return]

    def logs(self, row: int, *, raw: bool = False) -> Any:
        """Return the end of a row's standard error: text made safe for a terminal, or with `raw` the bytes as they came."""
        self._check_open()
        check_row(row, self.n)
        data = self._server.request_bytes("GET", ("pools", self.id, "logs"), query={"row": str(int(row))})
        return data if raw else escape_untrusted(data.decode("utf-8", "backslashreplace"), limit_chars=1 << 20)

    def close(self) -> None:
        """Close the pool on the server and wait until nothing of it is left. Closing twice is allowed.

        A forked process only lets go of the pool: it is its parent's.
        """
        if self._lease.inherited:
            self.detach()
        elif self._let_go():
            # A pool that its lease, the server or another client has ended is as closed as it can be.
            with contextlib.suppress(NotFoundError, PoolLostError):
                self._server.request_json("DELETE", ("pools", self.id), timeout_s=self._timeouts.close_s)
            self._server.close()

    def detach(self) -> None:
        """Let go of the pool without closing it; it lives on for its lease."""
        if self._let_go():
            self._server.close()

    def __enter__(self) -> RLPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._owned:
            self.detach()
            return
        # What ended the block says more than a close that fails too, most often because the server is gone.
        with contextlib.nullcontext() if error is None else contextlib.suppress(SandpoolError):
            self.close()

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self._server.address.url}"
        return f"<RLPool {self.id} of {self.n} environments, {state}>"

    # Helpers

    def _call(self, call: str, name: str, where: Any, timeout: float | None, free: dict[str, bytes]) -> CallResult:
        self._check_open()
        if timeout is not None:
            check_seconds("timeout", timeout)
        selection = select_rows(where, self.n)
        content_type, encode = call_request(call, name, selection, timeout, **free)
        if selection.count == 0:
            return CallResult([None] * self.n, {})

        def absorb(message: Message) -> CallResult:
            infos = infos_of(message, self.n)
            self.errors = collect_errors(message.members.get("failed", []), infos)
            return CallResult(results_of(message, selection, self.n, self.errors), self.errors)

        return self._reported(self._exchange("call", content_type, encode, absorb, self._timeouts.of_call_s(timeout)))

    def _exchange(self, operation: str, content_type: str, encode: Any, absorb: Callable[[Message], T], timeout_s: float) -> T:
        started = time.perf_counter()

        def timed(message: Message) -> T:
            self.timing.record(message.members.get("timing") or {}, (time.perf_counter() - started) * 1e3)
            return absorb(message)

        return self._channel.exchange(operation, content_type, encode, timed, timeout_s)

    def _reported(self, result: T) -> T:
        if self.errors:
            self._reporter.report(self.errors, result)
        return result

    def _absorb_observations(self, message: Message, selection: Selection, infos: list[dict[str, Any]]) -> Any:
        failed = message.members.get("failed", [])
        self.errors = collect_errors(failed, infos) if failed else {}
        return self._observations.merge(message.fields, selection.rows, failed)

    def _untouched(self) -> StepResult:
        flags = np.zeros(self.n, np.bool_)
        infos: list[dict[str, Any]] = [{"sandpool_skipped": True} for _ in range(self.n)]
        return StepResult.of(self._observations.last(), np.zeros(self.n), flags, flags.copy(), infos, {})

    def _read_observations(self) -> None:
        reply = self._server.request_bytes("GET", ("pools", self.id, "observations"), accept=CONTENT_TYPE)
        message = decode_message(np.frombuffer(bytearray(reply), np.uint8))
        if not message.fields:
            return
        self.reset_infos = infos_of(message, self.n)
        self._observations.merge(message.fields, None, message.members.get("failed", []))

    def _check_open(self) -> None:
        if self.closed:
            raise PoolClosedError(
                f"The pool {self.id} was closed by this object; expected an open pool.", hint="Make another RLPool, or call before close()."
            )

    def _let_go(self) -> bool:
        was_open = self._finalizer.detach() is not None
        self._lease.end()
        self._channel.close()
        return was_open


def _step_address(address: ServerAddress, description: Mapping[str, Any]) -> ServerAddress:
    """Where batches go: the pool's own endpoint if it has a token of its own, for our key is only for the server's URL."""
    endpoint = description.get("endpoint") or {}
    if not endpoint.get("token"):
        return address
    return parse_url(endpoint["url"], endpoint["token"], "the pool's endpoint")
