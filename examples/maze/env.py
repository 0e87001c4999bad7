"""A maze with hot walls: many of them are lava, and touching it ends the episode, so that luck alone does not get far.

pool = sandpool.RLPool("examples/maze", n=32, seed=1, config={"size": 10, "maze": 3})
observations, rewards, dones, infos = pool.step([0] * 32)

`config` chooses the maze, the same for every row; the seed only chooses the slips: one move in twenty goes another way. The
observation is the position. Lava ends the episode with reward 0, the exit with reward 1.
"""

import random

from sandpool.env import serve

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west
SLIP_SHARE = 0.05
LAVA_SHARE = 0.2  # of the inner walls


class Maze:
    """One walker in a maze of `size` x `size` rooms, drawn as (2 size + 1) x (2 size + 1) characters."""

    def __init__(self, size=10, maze=3):
        self.drawing = draw(size, random.Random(maze))
        self.place = (1, 1)

    def reset(self, seed=None, options=None):
        self.place = (1, 1)
        return list(self.place), {}

    def step(self, action):
        # `random` is seeded by the pool before the first reset, copied by a fork, and seeded anew by `reseed=`.
        if random.random() < SLIP_SHARE:
            action = random.randrange(4)
        across, down = MOVES[action]
        there = (self.place[0] + across, self.place[1] + down)
        if self.drawing[there[1]][there[0]] != "#":
            self.place = there
        floor = self.drawing[self.place[1]][self.place[0]]
        return list(self.place), float(floor == "E"), floor in "~E", False, {}

    def picture(self):
        """The maze as lines: `#` wall, `~` lava, `E` the exit."""
        return ["".join(line) for line in self.drawing]


def draw(size, luck):
    """Carve a maze without circles from the top left; some of its walls become lava, the farthest room is the exit."""
    drawing = [["#"] * (2 * size + 1) for _ in range(2 * size + 1)]
    distance = {(1, 1): 0}
    trail = [(1, 1)]
    drawing[1][1] = " "
    while trail:
        x, y = trail[-1]
        ways = [(dx, dy) for dx, dy in MOVES if is_rock(drawing, x + 2 * dx, y + 2 * dy)]
        if not ways:
            trail.pop()
            continue
        dx, dy = luck.choice(ways)
        drawing[y + dy][x + dx] = drawing[y + 2 * dy][x + 2 * dx] = " "
        trail.append((x + 2 * dx, y + 2 * dy))
        distance[trail[-1]] = len(trail) - 1
    for y in range(1, 2 * size):
        for x in range(1 + y % 2, 2 * size, 2):
            if drawing[y][x] == "#" and luck.random() < LAVA_SHARE:
                drawing[y][x] = "~"
    x, y = max(distance, key=distance.get)
    drawing[y][x] = "E"
    return drawing


def is_rock(drawing, x, y):
    return 0 < x < len(drawing) and 0 < y < len(drawing) and drawing[y][x] == "#"


serve(make=lambda config: Maze(**(config or {})))
