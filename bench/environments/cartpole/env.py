"""The environment of the step measurements: what `gymnasium.make` gives, wrappers included, as on the peers' side."""

import gymnasium

from sandpool.env import serve

serve(make=lambda config: gymnasium.make("CartPole-v1"))
