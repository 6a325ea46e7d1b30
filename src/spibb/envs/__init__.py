"""Benchmarks: random MDPs, the gridworld, Wet Chicken; their Gymnasium ids if it is installed."""

from importlib.util import find_spec

from spibb.envs.garnet import Garnet
from spibb.envs.gridworld import GridWorld
from spibb.envs.wet_chicken import WetChicken

__all__ = ["Garnet", "GridWorld", "WetChicken"]

if find_spec("gymnasium") is not None:
    from spibb.envs.gym import TabularEnv, from_gymnasium, register

    register()
    __all__ += ["TabularEnv", "from_gymnasium"]
