"""Q-networks trained safely from a log of transitions: the improvement steps on continuous states.

The way of the data: transitions, pseudo-counts, targets by the operators, a population of networks
trained together, a fitted policy that acts. Training needs ``pip install "spibb[deep]"``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spibb.deep.baseline import SoftmaxNetwork as SoftmaxNetwork
    from spibb.deep.kernel_width import choose_width as choose_width
    from spibb.deep.network import Network as Network
    from spibb.deep.policy import NetworkPolicy as NetworkPolicy
    from spibb.deep.pseudo_counts import HashCounts as HashCounts
    from spibb.deep.pseudo_counts import KernelCounts as KernelCounts
    from spibb.deep.rules import DQN as DQN
    from spibb.deep.rules import ApproxSoftSPIBBDQN as ApproxSoftSPIBBDQN
    from spibb.deep.rules import DoubleDQN as DoubleDQN
    from spibb.deep.rules import ExactSoftSPIBBDQN as ExactSoftSPIBBDQN
    from spibb.deep.rules import PiBSPIBBDQN as PiBSPIBBDQN
    from spibb.deep.rules import PiLeqBSPIBBDQN as PiLeqBSPIBBDQN
    from spibb.deep.rules import RaMDPDQN as RaMDPDQN
    from spibb.deep.training import Member as Member
    from spibb.deep.training import Population as Population
    from spibb.deep.training import TrainingData as TrainingData
    from spibb.deep.training import TrainingSettings as TrainingSettings
    from spibb.deep.training import train_population as train_population
    from spibb.deep.transitions import Transitions as Transitions

_NAMES = {
    "baseline": ("SoftmaxNetwork",),
    "kernel_width": ("choose_width",),
    "network": ("Network",),
    "policy": ("NetworkPolicy",),
    "pseudo_counts": ("HashCounts", "KernelCounts"),
    "rules": ("DQN", "DoubleDQN", "RaMDPDQN", "PiBSPIBBDQN", "PiLeqBSPIBBDQN",
              "ApproxSoftSPIBBDQN", "ExactSoftSPIBBDQN"),
    "training": ("Member", "Population", "TrainingData", "TrainingSettings", "train_population"),
    "transitions": ("Transitions",),
}  # fmt: skip
_HOME = {name: f"spibb.deep.{home}" for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spibb.deep' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
