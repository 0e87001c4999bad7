"""A step of several rows."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from sandpool.env.environments import five_values, plain_reward
from sandpool.env.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sandpool.env.encoding import Output
    from sandpool.env.rows import Rows


def step_rows(owner: Rows, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    if "actions" not in request:
        raise ValueError(f"step of several rows has no member actions; received the members {', '.join(request)}")
    count = len(rows)
    actions, misfits = owner.actions.cast_rows(request["actions"], raw, count)
    steps = owner.steps if rows is owner.all else [owner.steps[row] for row in rows]
    if misfits:
        steps = list(steps)
        for place in misfits:
            steps[place] = _raise
    run = StepRun(owner, rows)
    run.each(zip(range(count), steps, actions))
    owner.output.lenient = False
    observations = owner.stack.text(count, owner.output)
    flags = (run.terminated, run.truncated)
    return run.finish(identity, columns_of_step(owner.output, observations, count, run.rewards.tobytes(), flags, run.infos))


def columns_of_step(output: Output, observations: str, count: int, rewards: Any, flags: Any, infos: list[str]) -> str:
    """The columns of a reply; rewards are the bytes of float64, flags terminated and truncated with one byte a row."""
    columns = f',"obs":{observations},"reward":' + output.array(f'{{"$nd":["<f8",[{count}],', 8 * count, (rewards,))
    for name, each in zip(("terminated", "truncated"), flags):
        columns += f',"{name}":' + output.array(f'{{"$nd":["|b1",[{count}],', count, (each,))
    return f'{columns},"infos":{{{",".join(infos)}}}'


class StepRun(Run):
    """A step while its rows are asked."""

    def __init__(self, owner: Rows, rows: Any) -> None:
        super().__init__(owner, rows)
        self.rewards = array("d", bytes(8 * len(rows)))
        self.terminated = bytearray(len(rows))
        self.truncated = bytearray(len(rows))

    def take(self, items: Iterator[tuple[int, Callable[[Any], Any], Any]]) -> None:
        put, rewards, terminated, truncated, note = self.owner.stack.put, self.rewards, self.terminated, self.truncated, self.note
        place = self.place
        try:
            for place, step, action in items:
                result = step(action)
                if type(result) is tuple and len(result) == 5:
                    observation, reward, ended, cut, info = result
                else:
                    observation, reward, ended, cut, info = five_values(result)
                put(place, observation)
                rewards[place] = reward if type(reward) is float else plain_reward(reward)
                if ended:
                    terminated[place] = 1
                if cut:
                    truncated[place] = 1
                if info:
                    note(place, info)
        finally:
            self.place = place


def _raise(error: Any) -> Any:
    raise error
