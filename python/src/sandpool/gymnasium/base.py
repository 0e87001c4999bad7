"""What a pool's vector environment is, apart from its resets and steps: spaces, calls, and its end."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import logger
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from sandpool.gymnasium.actions import action_reader
from sandpool.gymnasium.calls import MissingAttributeError, call_rows, plain_seeds, set_rows
from sandpool.gymnasium.failures import FailedRows
from sandpool.gymnasium.modes import mode_of_pool
from sandpool.gymnasium.observations import BatchedObservations
from sandpool.gymnasium.pending import Pending
from sandpool.gymnasium.single_spaces import action_space_of, observation_space_of
from sandpool.pool.frames import Frames
from sandpool.pool.report import Reporter
from sandpool.pool.restarts import Restarts
from sandpool.pool.result import RowErrors
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import Selection, select_rows
from sandpool.pool.timing import Timing

Space = gymnasium.Space[Any]
V = TypeVar("V", bound="PoolVectorEnv")


class PoolVectorEnv(VectorEnv):
    """A vector environment on a pool, without its resets and steps."""

    # Until there is something to close.
    closed = True

    def _take(self, pool: RLPool, spaces: tuple[Space | None, Space | None], *, raises: bool, copy: bool, owned: bool) -> None:
        description = pool.description
        self.pool = pool
        self.copy = copy
        self.errors: RowErrors = {}
        self.num_envs = pool.n
        self.autoreset_mode = mode_of_pool(description["autoreset"])
        self.metadata = {**description["metadata"], "autoreset_mode": self.autoreset_mode}
        self.render_mode = description["render_mode"]
        self.spec = None
        self.single_observation_space = observation_space_of(spaces[0], description)
        self.single_action_space = action_space_of(spaces[1], description)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        # What Gymnasium 0.29's base class has besides.
        self.is_vector_env, self.viewer = True, None
        self._owned = owned
        self._everyone = select_rows(None, pool.n)
        self._pending = Pending()
        self._frames = Frames()
        self._reporter = Reporter(raises=raises)
        self._raises = raises
        self._read_actions = action_reader(self.single_action_space, self.action_space, self.num_envs)
        self._shown = BatchedObservations(self.single_observation_space, description["layout"], self.num_envs)
        self._failed = FailedRows(pool.batches, self.autoreset_mode, self._shown, pool.reset_timeout, copy)
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._restarts = Restarts(pool.batches)
        # Whether it has ever been reset; a pool of the caller's has been, or the caller minds.
        self._begun = np.full(self.num_envs, not owned or pool.initial_obs is not None)
        self._seeds = [-1] * self.num_envs
        self.closed = False

    @property
    def timing(self) -> Timing:
        """How long the pool's batches took."""
        return self.pool.timing

    def _notice_restarts(self) -> None:
        """Take in which rows were reset, or became copies, through `pool` and not through this object."""
        rows = self._restarts.take()
        if rows:
            self._begun[rows] = True
            self._ended[rows] = False
            self._failed.forget(rows)

    # Seeds

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed that each environment's generator was last made from; -1 where it is unknown."""
        self._check_ready("np_random_seed")
        with contextlib.suppress(MissingAttributeError):
            seeds = plain_seeds(call_rows(self.pool.batches, self._reporter, "np_random_seed", (), None))
            if seeds is not None:
                return seeds
        return tuple(self._seeds)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A generator for each environment, as its own was when it was seeded: those themselves are in the sandbox."""
        return tuple(seeding.np_random(seed if seed >= 0 else None)[0] for seed in self.np_random_seed)

    def _note_seeds(self, seeds: Any, selection: Selection) -> None:
        if seeds is not None:
            for row in selection.indices():
                seed = seeds[row] if isinstance(seeds, list) else seeds + row
                if seed is not None:
                    self._seeds[row] = int(seed)

    # Calls

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute: one request, results in order. See `call_rows` for errors."""
        self._check_ready("call")
        return call_rows(self.pool.batches, self._reporter, name, args, kwargs)

    def call_async(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Begin a call; its results come from `call_wait`."""
        self._check_ready("call_async")
        self._pending.begin("call", lambda: call_rows(self.pool.batches, self._reporter, name, args, kwargs))

    def call_wait(self, timeout: float | None = None, **_: Any) -> tuple[Any, ...]:
        """Return the results of the call that was begun; multiprocessing.TimeoutError after `timeout` seconds loses nothing."""
        self._check_running()
        return self._pending.wait("call", timeout)  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every environment, looked for through its wrappers."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: a list or tuple has one value for each, anything else is for all."""
        self._check_ready("set_attr")
        set_rows(self.pool.batches, self._reporter, name, values)

    def render(self) -> tuple[Any, ...]:
        """Return a frame of every environment, for the `render_mode` that they were made with; a failed one's is black."""
        frames = self.call("render")
        return tuple(self._frames.complete(frames, self.pool.batches.errors))

    # The end

    def close(self, **kwargs: Any) -> None:
        """Close; closing twice is allowed. `timeout` (seconds) bounds the wait for a pending call, ``terminate=True`` leaves it out."""
        if not self.closed:
            self.closed = True
            self.close_extras(**kwargs)

    def close_extras(self, timeout: float | None = None, terminate: bool = False, **_: Any) -> None:
        """End a pending call and close the pool, if it was made here."""
        try:
            self._end_pending(timeout, terminate)
        finally:
            # Also where warnings are errors.
            if self._owned:
                self.pool.close()

    def _end_pending(self, timeout: float | None, terminate: bool) -> None:
        pending = self._pending.name
        if pending is None:
            return
        logger.warn(f"Calling `close` while waiting for a pending call to `{pending}` to complete.")
        if not terminate:
            with contextlib.suppress(Exception):
                self._pending.wait(pending, timeout)

    def __enter__(self: V) -> V:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # At the interpreter's end nobody is left to tell, and the pool's own finalizer closes it.
        with contextlib.suppress(Exception):
            self.close(terminate=True)

    def _check_running(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")

    def _check_begun(self) -> None:
        if not self._begun.all():
            raise ResetNeeded(
                f"Cannot call env.step() before calling env.reset(): environments {np.flatnonzero(~self._begun).tolist()} "
                "were never reset; reset them first. Nothing was sent."
            )

    def _check_ready(self, method: str) -> None:
        self._check_running()
        self._pending.check_idle(method)
