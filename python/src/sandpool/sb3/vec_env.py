"""A pool as Stable-Baselines3's VecEnv."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded

from sandpool.errors import InvalidTypeError, InvalidValueError, RowsFailedError
from sandpool.pool.frames import Frames
from sandpool.pool.report import Reporter
from sandpool.pool.rlpool import RLPool
from sandpool.sb3 import calls
from sandpool.sb3.background import Background
from sandpool.sb3.branching import BranchedVecEnv
from sandpool.sb3.indices import rows_of
from sandpool.sb3.observations import Space
from sandpool.sb3.options import check_errors, check_pool, pool_options, spaces_of
from sandpool.sb3.rows import Rows, Stepped
from sandpool.sources.copy_code import Code
from sandpool.sources.from_fns import Thunks, open_fns_pool
from sandpool.sources.from_gym import Wrapper, open_gym_pool

Indices = int | Iterable[int] | None


class SB3VecEnv(BranchedVecEnv):
    """N isolated environments as one VecEnv; it takes the place of SubprocVecEnv.

    Args:
        env_dir: folder or program of the environment, as for RLPool.
        n: number of environments.
        pool: instead of these two, an open RLPool with ``autoreset="same_step"``; closing this object closes it.
        errors: ``"rows"`` (a failed environment ends its episode, with one warning for each kind) or ``"raise"`` (RowsFailedError).
        observation_space: gymnasium's space of one observation, for a program that announces none; likewise `action_space`.
        options: those of RLPool; `seeds` is ``"continue"`` by default, so that trajectories are those of SB3's own classes.

    A failed environment is done, with ``terminal_observation`` its last good observation, ``TimeLimit.truncated`` False and its error in
    ``info["sandpool_error"]``; its next observation is the first of its replacement, for which the step waits at most `reset_timeout`.

    Raises:
        InvalidValueError, InvalidTypeError: arguments that do not fit.
        NotSupportedError: environments whose observations are no arrays.

    Example:
        >>> env = SB3VecEnv("envs/cartpole", 64)  # doctest: +SKIP
        >>> PPO("MlpPolicy", env).learn(100_000)  # doctest: +SKIP
    """

    def __init__(
        self,
        env_dir: str | os.PathLike[str] | None = None,
        n: int | None = None,
        *,
        pool: RLPool | None = None,
        errors: str = "rows",
        observation_space: Space | None = None,
        action_space: Space | None = None,
        **options: Any,
    ) -> None:
        check_errors(errors)
        if pool is not None:
            self._adopt(check_pool(pool, {"env_dir": env_dir, "n": n, **options}), errors, observation_space, action_space)
            return
        if env_dir is None or n is None:
            raise InvalidTypeError(f"env_dir={env_dir!r:.80} and n={n!r:.40} were given; expected both, or pool=.")
        made = RLPool(env_dir, n, **pool_options(options, first_reset=observation_space is not None))
        try:
            self._adopt(made, errors, observation_space, action_space)
            self._begun = made.initial_obs is not None
        except BaseException:
            made.close()
            raise

    @classmethod
    def from_gym(
        cls,
        id: str,  # noqa: A002
        n: int,
        *,
        monitor: bool = True,
        wrappers: Sequence[Wrapper] = (),
        requirements: Sequence[str] | None = None,
        code: Code = (),
        make_kwargs: Mapping[str, Any] | None = None,
        errors: str = "rows",
        **kwargs: Any,
    ) -> SB3VecEnv:
        """Make n environments of a registered id, as SB3's make_vec_env does; `gymnasium.make` runs in the sandbox.

        Args:
            id: as for `gymnasium.make`; ``"module:Id-v0"`` imports a module first.
            n: number of environments.
            monitor: whether each one tells its episodes' statistics as SB3's Monitor does: ``info["episode"]`` with r, l and t, made
                inside, by a wrapper that needs no SB3 there. `wrappers` are put around it, as make_vec_env puts its own.
            wrappers: applied inside, in order: ``"module:Class"``, or ``("module:Class", {"argument": value})``.
            requirements: packages for the sandbox; None: the gymnasium and numpy that are installed here.
            code: files, folders or modules of your own that are sent along, so that they can be imported.
            make_kwargs: arguments of `gymnasium.make`.
            errors: as for SB3VecEnv.
            kwargs: those named like an option of RLPool go there, any other to `gymnasium.make`.

        Example:
            >>> env = SB3VecEnv.from_gym("CartPole-v1", 64)  # doctest: +SKIP
        """
        check_errors(errors)
        known = pool_options(kwargs, first_reset=False)
        source: dict[str, Any] = {
            "wrappers": wrappers,
            "requirements": requirements,
            "code": code,
            "make_kwargs": make_kwargs,
            "monitor": monitor,
        }
        return cls._of_pool(open_gym_pool(id, n=n, **source, **known), errors)

    @classmethod
    def from_fns(
        cls,
        fns: Thunks,
        *,
        monitor: bool = False,
        requirements: Sequence[str] | None = None,
        code: Code = (),
        errors: str = "rows",
        **options: Any,
    ) -> SB3VecEnv:
        """Make row i the environment that ``fns[i]()`` makes inside its sandbox, as SubprocVecEnv(fns) would.

        The functions are sent with cloudpickle; the sandbox's Python must have the minor version of this one. What they use of
        Stable-Baselines3 (Monitor, say) is sent with them, so that neither it nor torch need be installed there.

        Args:
            fns: functions without arguments, one for each environment.
            monitor: whether each environment is wrapped in a Monitor inside, for functions that do not do it themselves.
            requirements: packages besides the numpy, gymnasium and cloudpickle that are installed here, None for none; an empty
                list: whatever the sandbox's interpreter has.
            code: files, folders or modules of your own that the functions import.
            errors: as for SB3VecEnv.
            options: those of RLPool.

        Example:
            >>> env = make_vec_env("CartPole-v1", n_envs=8, vec_env_cls=SB3VecEnv.from_fns)  # doctest: +SKIP
        """
        check_errors(errors)
        known = pool_options(options, first_reset=False)
        return cls._of_pool(open_fns_pool(fns, requirements=requirements, code=code, monitor=monitor, **known), errors)

    @classmethod
    def _of_pool(cls, pool: RLPool, errors: str) -> SB3VecEnv:
        try:
            made = cls(pool=pool, errors=errors)
        except BaseException:
            pool.close()
            raise
        made._begun = pool.initial_obs is not None
        return made

    def _adopt(self, pool: RLPool, errors: str, observation_space: Space | None, action_space: Space | None) -> None:
        spaces = spaces_of(pool, observation_space, action_space)
        self._pool = pool
        # Whether every environment was ever reset; a pool of the caller's has been, or the caller minds.
        self._begun = True
        self._pending: Future[Stepped] | None = None
        self._background: Background | None = None
        self._reporter = Reporter(raises=errors == "raise")
        self._rows = Rows(pool, *spaces)
        self._frames = Frames()
        super().__init__(pool.n, *spaces)
        # The frame rate, say, which the base class leaves out; it has set the render modes.
        self.metadata: dict[str, Any] = {**pool.description["metadata"], **self.metadata}

    @property
    def pool(self) -> RLPool:
        """The pool."""
        return self._pool

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._pool.closed

    @property
    def waiting(self) -> bool:
        """Whether a step was begun whose results `step_wait` has not returned."""
        return self._pending is not None

    # Batches

    def reset(self) -> Any:
        """Reset every environment with what `seed` and `set_options` left for it; infos are in `reset_infos`.

        A step that `step_async` began is waited for, and its results are dropped.
        """
        self._drop_pending()
        started = self._rows.reset(self._seeds, self._options)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = started.reset_infos
        if started.errors:
            self._reporter.report(started.errors, started.obs)
        return started.obs

    def step(self, actions: Any) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Step every environment: observations, rewards float64 ``(n,)``, dones bool ``(n,)``, n infos.

        gymnasium's ResetNeeded is raised, before anything is sent, for environments that were never reset.
        """
        self._check_not_waiting()
        chosen = self._rows.read_actions(actions)
        self._check_begun()
        return self._deliver(self._rows.step(chosen))

    def step_async(self, actions: Any) -> None:
        """Begin a step; the environments work while the caller does something else."""
        self._check_not_waiting()
        chosen = self._rows.read_actions(actions)
        self._check_begun()
        if self._background is None or not self._background.alive:
            self._background = Background()
        self._pending = self._background.run(lambda: self._rows.step(chosen))

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Wait for the step that `step_async` began, and return what `step` does."""
        if self._pending is None:
            raise InvalidValueError("step_wait() was called without a step to wait for; expected step_async(actions) before it.")
        try:
            stepped = self._pending.result()
        finally:
            # Still running only if the wait was interrupted.
            if self._pending.done():
                self._pending = None
        return self._deliver(stepped)

    def close(self) -> None:
        """End the environments, in the middle of a step too, and wait until nothing of them is left. Closing twice is allowed.

        A pool that RLPool.attach() gave is only let go of.
        """
        self._pool.__exit__(None, None, None)
        self._drop_pending()
        if self._background is not None:
            self._background.end()
            self._background = None

    def __enter__(self) -> SB3VecEnv:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _deliver(self, stepped: Stepped) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        for row, info in stepped.reset_infos.items():
            self.reset_infos[row] = info
        result = (stepped.obs, stepped.rewards, stepped.dones, stepped.infos)
        if stepped.errors:
            self._reporter.report(stepped.errors, result)
        return result

    def _check_not_waiting(self) -> None:
        if self._pending is not None:
            raise InvalidValueError(
                "A step was begun while another one is going on; expected step_wait() after step_async().",
                hint="reset() drops the one that is going on.",
            )

    def _check_begun(self) -> None:
        self._begun = self._begun or self._pool.closed or bool(self._pool.batches.restarts.all())
        if not self._begun:
            rows = np.flatnonzero(self._pool.batches.restarts == 0).tolist()
            raise ResetNeeded(
                f"Cannot call step() before calling reset(): environments {rows} were never reset; reset them first. Nothing was sent."
            )

    def _drop_pending(self) -> None:
        if self._pending is not None:
            # Its exception is nobody's: the step is given up.
            self._pending.exception()
            self._pending = None

    # Methods and attributes

    def env_method(self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the environments, through their wrappers, all at once; one result for each of `indices`.

        Raises:
            RowsAttributeError (an AttributeError): an environment without the method.
            RowsFailedError: one that raised.
        """
        return calls.call_method(self._pool, method_name, method_args, method_kwargs, rows_of(indices, self._pool.n))

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Get an attribute of the environments, through their wrappers; raises as `env_method` does."""
        rows = rows_of(indices, self._pool.n)
        try:
            return calls.get_attribute(self._pool, attr_name, rows)
        except RowsFailedError:
            # A program without attributes has said how it renders, if it does; the base class asks when it is made.
            if attr_name != "render_mode":
                raise
            return [self._pool.description["render_mode"]] * len(rows)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of the environments to one value: where it stands, else on the outermost wrapper."""
        calls.set_attribute(self._pool, attr_name, value, rows_of(indices, self._pool.n))

    def has_attr(self, attr_name: str) -> bool:
        """Whether every environment has the attribute."""
        return calls.has_attribute(self._pool, attr_name)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether the environments are wrapped by a class, known by its path. Our Monitor counts as SB3's."""
        return calls.is_wrapped(self._pool, wrapper_class, rows_of(indices, self._pool.n))

    def get_images(self) -> list[Any]:
        """Return what each environment renders, black for a failed one; None for each if the render mode is not ``rgb_array``."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"The render mode is {self.render_mode!r}; get_images() needs 'rgb_array'.", UserWarning, stacklevel=2)
            return [None] * self._pool.n
        return calls.render_frames(self._pool, self._frames)
