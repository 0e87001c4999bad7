"""Gymnasium's own vector wrappers give around a pool what they give around SyncVectorEnv."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from assert_same import assert_same

from conftest import BEFORE_1, MODES, Make, sync

if not BEFORE_1:
    from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, NormalizeReward, RecordEpisodeStatistics, RecordVideo

pytestmark = pytest.mark.skipif(BEFORE_1, reason="0.29 wraps vector environments with the wrappers of single ones")

SAME_STEP_STATISTICS = tuple(int(part) for part in gymnasium.__version__.split(".")[:2]) >= (1, 4)


def without_times(result: Any) -> Any:
    for infos in [part for part in result if isinstance(part, dict)]:
        if "episode" in infos:
            infos["episode"].pop("t", None)
            infos["episode"].pop("_t", None)
    return result


def run_both(ours: Any, theirs: Any, mode: str, steps: int = 120) -> None:
    assert_same(ours.reset(seed=2), theirs.reset(seed=2), "reset")
    theirs.action_space.seed(0)
    for step in range(steps):
        actions = theirs.action_space.sample()
        received, expected = without_times(ours.step(actions)), without_times(theirs.step(actions))
        assert_same(received, expected, f"step {step}")
        done = expected[2] | expected[3]
        if mode == "Disabled" and done.any():
            assert_same(ours.reset(options={"reset_mask": done}), theirs.reset(options={"reset_mask": done}), f"reset {step}")


@pytest.mark.parametrize("mode", MODES)
def test_dict_info_to_list(make: Make, mode: str) -> None:
    run_both(DictInfoToList(make("Walk-v0", autoreset_mode=mode)), DictInfoToList(sync("Walk-v0", mode=mode)), mode)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "Disabled" and (mode != "SameStep" or SAME_STEP_STATISTICS)])
def test_record_episode_statistics(make: Make, mode: str) -> None:
    ours, theirs = (RecordEpisodeStatistics(envs) for envs in (make("CartPole-v1", autoreset_mode=mode), sync("CartPole-v1", mode=mode)))
    run_both(ours, theirs, mode)
    assert ours.episode_count >= 9
    assert_same(list(ours.length_queue), list(theirs.length_queue))


def test_record_episode_statistics_keeps_the_other_rows_in_a_partial_reset(make: Make) -> None:
    envs = RecordEpisodeStatistics(make("CartPole-v1", 2, autoreset_mode="Disabled"))
    envs.reset(seed=0)
    for _ in range(4):
        envs.step([0, 1])
    envs.reset(options={"reset_mask": np.array([True, False])})
    envs.step([0, 1])
    assert envs.episode_lengths.tolist() == [1, 5]


def test_normalize_observation(make: Make) -> None:
    ours, theirs = make("CartPole-v1", autoreset_mode="NextStep"), sync("CartPole-v1", mode="NextStep")
    run_both(NormalizeObservation(ours), NormalizeObservation(theirs), "NextStep")


@pytest.mark.parametrize("mode", ["NextStep", *(["SameStep"] if SAME_STEP_STATISTICS else [])])
def test_normalize_reward(make: Make, mode: str) -> None:
    ours, theirs = make("CartPole-v1", autoreset_mode=mode), sync("CartPole-v1", mode=mode)
    run_both(NormalizeReward(ours), NormalizeReward(theirs), mode)


class Clip:
    """Stands for moviepy's, which writes the file: what it is given is kept."""

    given: ClassVar[list[list[np.ndarray]]] = []

    def __init__(self, frames: list[np.ndarray], fps: int) -> None:
        self.given.append([*frames, np.array(fps)])

    def write_videofile(self, path: str, logger: object) -> None:
        assert path.endswith(".mp4")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_record_video(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("moviepy", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = Clip
    for envs in (make("Picture-v0", 2, autoreset_mode="NextStep"), sync("Picture-v0", 2, mode="NextStep")):
        video = RecordVideo(envs, str(tmp_path), video_length=20)
        video.reset(seed=0)
        for _ in range(22):
            video.step(np.array([0, 1]))
        video.close()
    half = len(Clip.given) // 2
    assert max(map(len, Clip.given)) > 10
    assert_same(Clip.given[:half], Clip.given[half:])


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
@pytest.mark.parametrize("mode", MODES)
def test_a_failed_row_goes_through_the_wrappers(make: Make, mode: str) -> None:
    envs = DictInfoToList(make("Faulty-v0", 2, autoreset_mode=mode, envs_per_process=1))
    envs.reset(seed=0)
    *_, truncations, infos = envs.step([0, 1])
    assert truncations.tolist() == [False, True]
    assert infos[0] == {}
    assert infos[1]["sandpool_error"]["kind"] == "exception"
