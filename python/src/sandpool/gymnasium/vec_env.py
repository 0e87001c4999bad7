"""A pool as a Gymnasium vector environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, RowsFailedError
from sandpool.gymnasium.base import Space
from sandpool.gymnasium.branching import BranchedVectorEnv
from sandpool.gymnasium.open_pool import adopt_pool, open_pool
from sandpool.gymnasium.present import present_reset, present_step
from sandpool.gymnasium.reset_arguments import read_options, read_seeds
from sandpool.gymnasium.versions import AutoresetMode
from sandpool.pool.actions import read_actions
from sandpool.pool.batches import ResetBatch, StepBatch
from sandpool.pool.report import describe_errors
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import Selection, select_rows
from sandpool.sources.from_fns import Thunks, open_fns_pool
from sandpool.sources.from_gym import open_gym_pool

Stepped = tuple[Any, Any, Any, Any, dict[str, Any]]


class SandpoolVecEnv(BranchedVectorEnv):
    """N isolated environments as one `gymnasium.vector.VectorEnv`; it takes the place of SyncVectorEnv and AsyncVectorEnv.

    Args:
        env_dir: folder or program of the environment, as for RLPool.
        n: number of environments.
        pool: an RLPool of yours instead of these two, whose `autoreset` is then the mode; closing this object leaves it open.
        autoreset_mode: a member of AutoresetMode or its text. None: same-step, or a vectorised environment's own.
        errors: ``"rows"`` (a failed environment is a truncated row, with a warning for each kind) or ``"raise"`` (RowsFailedError).
        copy: False returns the observations that the next call may write to.
        observation_space: the space of one observation, for a program that announces none; likewise `action_space`.
        options: those of RLPool; `seeds` is ``"continue"`` by default, so that trajectories are those of Gymnasium's own classes.

    A failed environment is truncated, with reward 0 and its error in ``infos["sandpool_error"]``, and its observation is never null.
    In same-step mode its final observation is its last good one, and its observation the first of its replacement, for which a
    step waits at most `reset_timeout` (then the last good one stays). In the other modes its observation is the last good one,
    and the replacement's first comes with the next step or reset.

    Attributes:
        autoreset_mode: the mode, also in ``metadata["autoreset_mode"]``.
        pool: the RLPool.
        errors: the errors of the last call, by row.

    Raises:
        InvalidValueError, InvalidTypeError: arguments that do not fit, before anything is made.

    Example:
        >>> envs = SandpoolVecEnv.from_gym("CartPole-v1", n=64)  # doctest: +SKIP
        >>> observations, infos = envs.reset(seed=0)  # doctest: +SKIP
        >>> observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())  # doctest: +SKIP
    """

    def __init__(
        self,
        env_dir: str | os.PathLike[str] | None = None,
        n: int | None = None,
        *,
        pool: RLPool | None = None,
        autoreset_mode: AutoresetMode | str | None = None,
        errors: str = "rows",
        copy: bool = True,
        observation_space: Space | None = None,
        action_space: Space | None = None,
        **options: Any,
    ) -> None:
        if pool is None:
            made = open_pool(lambda **known: _make(env_dir, n, known), autoreset_mode, errors, options)
        else:
            made = adopt_pool(pool, env_dir, n, autoreset_mode, errors, options)
        try:
            self._take(made, (observation_space, action_space), raises=errors == "raise", copy=copy, owned=pool is None)
        except BaseException:
            if pool is None:
                made.close()
            raise

    @classmethod
    def from_gym(
        cls,
        id: str,  # noqa: A002
        n: int,
        *,
        wrappers: Any = (),
        requirements: Any = None,
        code: Any = (),
        make_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SandpoolVecEnv:
        """Make n environments of a registered id; `gymnasium.make` runs in the sandbox.

        Args:
            id: as for `gymnasium.make`, with ``"module:Id-v0"`` to import a module first.
            n: number of environments.
            wrappers: applied inside, in order: ``"module:Class"``, or ``("module:Class", {"argument": value})``.
            requirements: packages for the sandbox; None: this gymnasium's version and numpy of this major version. An empty list:
                whatever the interpreter `python` has.
            code: files, folders or modules of your own that are sent along, so that they can be imported.
            make_kwargs: arguments of `gymnasium.make`.
            kwargs: those named like an option of this class or RLPool go there, any other to `gymnasium.make`. `envs_per_process`
                is ``"auto"`` by default and `first_reset` False, so that `reset` is the environment's first, as in SyncVectorEnv.

        An environment that fails in its first reset raises RowsFailedError, also with ``errors="rows"``.

        Example:
            >>> SandpoolVecEnv.from_gym("my_module:Maze-v0", 8, code="src/my_module.py", size=5)  # doctest: +SKIP
        """
        source = {"wrappers": wrappers, "requirements": requirements, "code": code, "make_kwargs": make_kwargs}
        return cls._of_source(lambda **known: open_gym_pool(id, n=n, **source, **known), kwargs)

    @classmethod
    def from_fns(cls, fns: Thunks, *, requirements: Any = None, code: Any = (), **kwargs: Any) -> SandpoolVecEnv:
        """Make the environments that functions return, as SyncVectorEnv takes them; see `sandpool.sources.from_fns.open_fns_pool`."""
        return cls._of_source(lambda **known: open_fns_pool(fns, requirements=requirements, code=code, **known), kwargs)

    @classmethod
    def _of_source(cls, make: Callable[..., RLPool], kwargs: dict[str, Any]) -> SandpoolVecEnv:
        spaces = kwargs.pop("observation_space", None), kwargs.pop("action_space", None)
        mode, errors, copy = kwargs.pop("autoreset_mode", None), kwargs.pop("errors", "rows"), kwargs.pop("copy", True)
        # Gymnasium's environments announce their spaces, and a hidden reset would move what wrappers inside have averaged.
        pool = open_pool(make, mode, errors, {"first_reset": False, **kwargs})
        vec_env = cls.__new__(cls)
        try:
            vec_env._take(pool, spaces, raises=errors == "raise", copy=copy, owned=True)
        except BaseException:
            pool.close()
            raise
        return vec_env

    # Reset

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``, and return observations and batched infos.

        Args:
            seed: None, an integer s (row i gets s+i), or a list of n integers or None.
            options: for the environments; `reset_mask`, a bool array ``(n,)`` with a True, is not handed on. Never changed.
        """
        self._check_ready("reset")
        return self._reset_call(seed, options)()

    def reset_async(self, seed: Any = None, options: Any = None) -> None:
        """Begin a reset; its result comes from `reset_wait`."""
        self._check_ready("reset_async")
        self._pending.begin("reset", self._reset_call(seed, options))

    def reset_wait(self, timeout: float | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        """Return the result of the reset that was begun; multiprocessing.TimeoutError after `timeout` seconds loses nothing."""
        self._check_running()
        return self._pending.wait("reset", timeout)  # type: ignore[no-any-return]

    def _reset_call(self, seed: Any, options: Any) -> Callable[[], tuple[Any, dict[str, Any]]]:
        seeds = read_seeds(seed, self.num_envs)
        passed_on, mask = read_options(options, self.num_envs)
        selection = self._everyone if mask is None else select_rows(mask, self.num_envs)
        return lambda: self._reset(seeds, passed_on, selection)

    def _reset(self, seeds: Any, options: Any, selection: Selection) -> tuple[Any, dict[str, Any]]:
        self._notice_restarts()
        batch = self.pool.batches.reset(seeds, options, False, selection, copy=self.copy)
        self._restarts.take()
        self.errors = batch.errors
        self._refuse_stillborn(batch, selection)
        self._note_seeds(seeds, selection)
        self._ended[slice(None) if selection.rows is None else selection.rows] = False
        result = present_reset(self._failed.after_reset(batch, selection.indices()), self._shown, self.num_envs)
        if batch.errors:
            self._reporter.report(batch.errors, result)
        return result

    def _refuse_stillborn(self, batch: ResetBatch, selection: Selection) -> None:
        """Raise if an environment fails in its very first reset: nothing is gained by training on its zeros."""
        stillborn = {row: error for row, error in batch.errors.items() if not self._begun[row]}
        if stillborn:
            raise RowsFailedError(describe_errors(stillborn), errors=stillborn, result=batch)
        self._begun[slice(None) if selection.rows is None else selection.rows] = True

    # Step

    def step(self, actions: Any) -> Stepped:
        """Step all environments and return observations, rewards (float64), terminations, truncations (bool) and batched infos.

        ResetNeeded is raised, before anything is sent, for environments that were never reset.
        """
        self._check_ready("step")
        return self._step_call(actions)()

    def step_async(self, actions: Any) -> None:
        """Begin a step; its result comes from `step_wait`."""
        self._check_ready("step_async")
        self._pending.begin("step", self._step_call(actions))

    def step_wait(self, timeout: float | None = None, **_: Any) -> Stepped:
        """Return the result of the step that was begun; multiprocessing.TimeoutError after `timeout` seconds loses nothing."""
        self._check_running()
        return self._pending.wait("step", timeout)  # type: ignore[no-any-return]

    def _step_call(self, actions: Any) -> Callable[[], Stepped]:
        self._notice_restarts()
        chosen = read_actions(self._read_actions(actions), self._everyone, self.num_envs, self.pool.action_space)
        self._check_begun()
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            rows = np.flatnonzero(self._ended).tolist()
            raise AssertionError(
                f"self._autoreset_envs={self._ended}: environments {rows} ended their episodes and autoreset is disabled; reset "
                "them first, with options={'reset_mask': terminations | truncations}."
            )
        return lambda: self._step(chosen)

    def _step(self, actions: Any) -> Stepped:
        batch = self.pool.batches.step(actions, self._everyone, copy=self.copy)
        if batch.errors:
            self._report_step(batch)
        batch = self._failed.after_step(batch, actions)
        self.errors = batch.errors
        return self._presented(batch)

    def _report_step(self, batch: StepBatch) -> None:
        """Warn, or raise with what the step brought; the replacements are then left to the next step or reset."""
        self.errors = batch.errors
        result = self._presented(self._failed.note_failed(batch)) if self._raises else None
        self._reporter.report(batch.errors, result)

    def _presented(self, batch: StepBatch) -> Stepped:
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._ended = batch.terminated | batch.truncated
        return present_step(batch, self._shown, self.num_envs, self.autoreset_mode)


def _make(env_dir: str | os.PathLike[str] | None, n: int | None, options: dict[str, Any]) -> RLPool:
    if env_dir is None or n is None:
        raise InvalidTypeError(f"env_dir={env_dir!r:.80} and n={n!r:.40} were given; expected both, or pool= instead of them.")
    return RLPool(env_dir, n, **options)
