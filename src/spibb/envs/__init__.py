"""Benchmarks: random MDPs, gridworld, Wet Chicken, costs, helicopter; Gymnasium ids, if there."""

from importlib.util import find_spec

from spibb.envs.cliff import Cliff
from spibb.envs.garnet import Garnet
from spibb.envs.gridworld import GridWorld
from spibb.envs.helicopter import Helicopter
from spibb.envs.icu_sepsis import ICUSepsis
from spibb.envs.inventory import Inventory
from spibb.envs.maintenance import Maintenance
from spibb.envs.queue import Queue
from spibb.envs.rare_action import RareAction
from spibb.envs.sysadmin import SysAdmin
from spibb.envs.wet_chicken import WetChicken

__all__ = [
    "Cliff", "Garnet", "GridWorld", "Helicopter", "ICUSepsis", "Inventory", "Maintenance", "Queue",
    "RareAction", "SysAdmin", "WetChicken",
]  # fmt: skip

if find_spec("gymnasium") is not None:
    from spibb.envs.gym import TabularEnv, from_gymnasium, register
    from spibb.envs.gym_continuous import HelicopterEnv, collect_transitions
    from spibb.envs.rollouts import roll_out

    register()
    __all__ += ["HelicopterEnv", "TabularEnv", "collect_transitions", "from_gymnasium", "roll_out"]
