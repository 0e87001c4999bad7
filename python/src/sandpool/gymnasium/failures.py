"""Failed rows as a trainer can live with them: truncated, with a legal observation, and alive again as soon as may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sandpool.gymnasium.observations import BatchedObservations
from sandpool.gymnasium.versions import FINAL_OBSERVATION, AutoresetMode
from sandpool.pool.batches import Batches, ResetBatch, StepBatch
from sandpool.pool.revive import revive_rows


class FailedRows:
    """The rows whose last word was an error, and what is made of them in each autoreset mode.

    Same-step: the row is truncated, its final observation is the last good one, its observation the first of its replacement, for
    which a step waits at most the reset's timeout. Where an episode had ended and only the reset after it failed, reward, flags,
    final observation and final info are those of that end. Next-step: truncated with the last good observation; the next step brings the
    replacement's first. Disabled: truncated with the last good observation; the next reset brings the replacement's first.
    """

    def __init__(self, batches: Batches, mode: AutoresetMode, shown: BatchedObservations, wait_s: float, copy: bool) -> None:
        self._batches = batches
        self._mode = mode
        self._shown = shown
        self._wait_s = wait_s
        self._copy = copy
        # Not reset since they failed: the error, and the observation that the trainer was shown.
        self._waiting: dict[int, tuple[dict[str, Any], Any]] = {}

    def after_reset(self, batch: ResetBatch, rows: Iterable[int]) -> ResetBatch:
        """Return the reset of some rows as the trainer shall see it, and note which it left failed."""
        self.forget(rows)
        if not batch.errors:
            return batch
        self._note(batch)
        return batch._replace(obs=self._good(batch.obs))

    def forget(self, rows: Iterable[int]) -> None:
        """Take in that rows were reset by another way than a reset or step of the vector environment."""
        for row in rows:
            self._waiting.pop(row, None)

    def note_failed(self, batch: StepBatch) -> StepBatch:
        """Return a step with its failed rows truncated and as they are otherwise, and note which they are."""
        self._waiting.clear()
        self._note(batch)
        ends = self._ends(batch)
        told = {row: {FINAL_OBSERVATION: final, "final_info": last} for row, (final, last) in ends.items()}
        return self._truncated(batch._replace(infos={**batch.infos, **told}), ends)

    def after_step(self, batch: StepBatch, actions: Any) -> StepBatch:
        """Return the batch as the trainer shall see it; without failed rows it is the same."""
        if not batch.errors and not self._waiting:
            return batch
        if self._mode is AutoresetMode.SAME_STEP:
            return self._same_step(batch, actions)
        if self._mode is AutoresetMode.NEXT_STEP:
            batch = self._next_step(batch, actions)
        return self.note_failed(batch)

    def _same_step(self, batch: StepBatch, actions: Any) -> StepBatch:
        observations = self._good(batch.obs)
        shown_now = {row: self._shown.row(observations, row) for row in batch.errors}
        ends = self._ends(batch)
        finals = {**shown_now, **{row: final for row, (final, _) in ends.items()}}
        ended = dict(batch.errors)
        # The pool has reset them in this step: what the trainer saw before belongs to another episode.
        for row, (error, shown) in self._waiting.items():
            if row not in ended:
                ended[row], finals[row] = {**error, "repeated": True}, shown
        failure_infos = {row: _failure_info(batch.infos.get(row, {}), error) for row, error in ended.items()}
        fresh = {row: error for row, error in batch.errors.items() if not error.get("repeated")}
        revived = revive_rows(self._batches, batch.obs, fresh, actions, self._wait_s, copy=self._copy)
        infos = {**batch.infos, **revived.infos}
        for row in ended:
            again = infos.get(row, {}) if row in revived.infos or row not in batch.errors else {}
            last = ends[row][1] if row in ends else {}
            infos[row] = {**again, **failure_infos[row], FINAL_OBSERVATION: finals[row], "final_info": {**last, **failure_infos[row]}}
        left = {row: revived.errors.get(row, error) for row, error in batch.errors.items() if row not in revived.infos}
        result = batch._replace(obs=self._good(revived.obs), infos=dict(sorted(infos.items())), errors=ended)
        self._waiting.clear()
        for row, error in left.items():
            self._waiting[row] = (error, shown_now[row])
        return self._truncated(result, ends)

    def _ends(self, batch: StepBatch) -> dict[int, tuple[Any, dict[str, Any]]]:
        """Return final observation and info of the failed rows whose episode had ended before, in the same step."""
        ends = {}
        for row in batch.errors:
            info = batch.infos.get(row, {})
            if "final_obs" in info:
                last = info.get("final_info", {})
                ends[row] = self._shown.member(info["final_obs"]), last if isinstance(last, dict) else {"sandpool_info": last}
        return ends

    def _next_step(self, batch: StepBatch, actions: Any) -> StepBatch:
        """Wait for the rows that this step should have reset."""
        late = {row: error for row, error in batch.errors.items() if error.get("repeated")}
        if not late:
            return batch
        revived = revive_rows(self._batches, batch.obs, late, actions, self._wait_s, copy=self._copy)
        errors = {row: revived.errors.get(row, error) for row, error in batch.errors.items() if row not in revived.infos}
        for row in revived.infos:
            batch.terminated[row] = batch.truncated[row] = False
        return batch._replace(obs=revived.obs, infos={**batch.infos, **revived.infos}, errors=errors)

    def _note(self, batch: ResetBatch | StepBatch) -> None:
        observations = self._good(batch.obs)
        for row, error in batch.errors.items():
            self._waiting[row] = (error, self._shown.row(observations, row))

    def _truncated(self, batch: StepBatch, ends: Collection[int]) -> StepBatch:
        infos = dict(batch.infos)
        for row, error in batch.errors.items():
            if row not in ends:
                batch.rewards[row], batch.terminated[row], batch.truncated[row] = 0.0, False, True
            infos[row] = {**infos.get(row, {}), **_failure_info(infos.get(row, {}), error)}
        return batch._replace(obs=self._good(batch.obs), infos=infos)

    def _good(self, observations: Any) -> Any:
        """Put the last good observation of a list pool's failed rows, None in the reply, in their place."""
        return self._batches.observations.last() if isinstance(observations, list) else observations


def _failure_info(info: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    straggler = {"sandpool_straggler": True} if error.get("kind") == "timeout" else {}
    kept = {name: value for name, value in info.items() if name == "sandpool_straggler"}
    return {**kept, **straggler, "sandpool_error": error}
