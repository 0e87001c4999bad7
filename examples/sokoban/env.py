"""Sokoban: push every box onto a goal. A push cannot be taken back, so that one wrong push may lose the game.

pool = sandpool.RLPool("examples/sokoban", n=16, seed=1, config={"level": 1})
observations, rewards, dones, infos = pool.step([0] * 16)

The observation is the board as text: `#` wall, `.` goal, `$` box, `*` box on a goal, `@` player, `+` player on a goal. A step costs
0.1, a box that comes onto a goal gives 1, one that leaves it takes 1, and the last one gives 10 more and ends the episode, as in
DeepMind's Boxoban.
"""

from sandpool.env import serve

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # up, right, down, left
STEPS_MAX = 200
LEVELS = [
    """
#######
#  .  #
# $#  #
#  @$.#
#     #
#######
""",
    """
########
#.   @ #
# $ #  #
# #    #
##  .$ #
########
""",
    """
######
##   #
# $  #
#.$# #
#  @##
#.   #
######
""",
]


class Sokoban:
    """One level, played from its beginning at every reset."""

    def __init__(self, level=1):
        self.level = LEVELS[level].strip("\n").split("\n")
        self.reset()

    def reset(self, seed=None, options=None):
        self.walls = self.find("#")
        self.goals = self.find(".*+")
        self.boxes = self.find("$*")
        (self.player,) = self.find("@+")
        self.steps = 0
        return self.board(), {}

    def step(self, action):
        across, down = MOVES[action]
        there = (self.player[0] + across, self.player[1] + down)
        beyond = (there[0] + across, there[1] + down)
        reward = -0.1
        if there in self.boxes and beyond not in self.walls | self.boxes:
            self.boxes = self.boxes - {there} | {beyond}
            reward += (beyond in self.goals) - (there in self.goals)
        if there not in self.walls | self.boxes:
            self.player = there
        self.steps += 1
        solved = self.boxes == self.goals
        truncated = self.steps >= STEPS_MAX and not solved
        return self.board(), reward + 10 * solved, solved, truncated, {"boxes_on_goals": len(self.boxes & self.goals)}

    def find(self, signs):
        return {(x, y) for y, line in enumerate(self.level) for x, sign in enumerate(line) if sign in signs}

    def board(self):
        return "\n".join("".join(self.sign(x, y) for x in range(len(line))) for y, line in enumerate(self.level))

    def sign(self, x, y):
        if (x, y) in self.walls:
            return "#"
        if (x, y) == self.player:
            return "+" if (x, y) in self.goals else "@"
        if (x, y) in self.boxes:
            return "*" if (x, y) in self.goals else "$"
        return "." if (x, y) in self.goals else " "


serve(make=lambda config: Sokoban(**(config or {})))
