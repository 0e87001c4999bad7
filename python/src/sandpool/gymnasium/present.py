"""What a vector environment's reset and step return."""

from __future__ import annotations

from typing import Any

from sandpool.gymnasium.infos import batch_infos
from sandpool.gymnasium.observations import BatchedObservations
from sandpool.gymnasium.versions import FINAL_OBSERVATION, AutoresetMode
from sandpool.pool.batches import ResetBatch, StepBatch


def present_reset(batch: ResetBatch, shown: BatchedObservations, n: int) -> tuple[Any, dict[str, Any]]:
    """Return observations and batched infos."""
    return shown.of(batch.obs), batch_infos(batch.infos, n) if batch.infos else {}


def present_step(batch: StepBatch, shown: BatchedObservations, n: int, mode: AutoresetMode) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return observations, rewards, terminations, truncations and batched infos."""
    infos: dict[str, Any] = {}
    if batch.infos:
        infos = batch_infos(_with_finals(batch, shown) if mode is AutoresetMode.SAME_STEP else batch.infos, n)
    return shown.of(batch.obs), batch.rewards, batch.terminated, batch.truncated, infos


def _with_finals(batch: StepBatch, shown: BatchedObservations) -> dict[int, dict[str, Any]]:
    """Make final observations members of the space, under the installed Gymnasium's name for them, as the first of their infos."""
    infos = dict(batch.infos)
    ended = batch.terminated | batch.truncated
    for row, info in batch.infos.items():
        # The pool's word for it; a failed row has the adapter's already.
        if ended[row] and row not in batch.errors and "final_obs" in info:
            rest = {name: value for name, value in info.items() if name not in ("final_obs", "final_info")}
            infos[row] = {FINAL_OBSERVATION: shown.member(info["final_obs"]), "final_info": info.get("final_info", {}), **rest}
    return infos
