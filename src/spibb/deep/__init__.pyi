"""Where the public names of networks live: the one list of them."""

from spibb.deep.baseline import SoftmaxNetwork as SoftmaxNetwork
from spibb.deep.kernel_width import choose_width as choose_width
from spibb.deep.network import Network as Network
from spibb.deep.policy import NetworkPolicy as NetworkPolicy
from spibb.deep.policy import PopulationPolicy as PopulationPolicy
from spibb.deep.population import Member as Member
from spibb.deep.population import TrainingSettings as TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts as KernelCounts
from spibb.deep.rules import DQN as DQN
from spibb.deep.rules import ApproxSoftSPIBBDQN as ApproxSoftSPIBBDQN
from spibb.deep.rules import DoubleDQN as DoubleDQN
from spibb.deep.rules import ExactSoftSPIBBDQN as ExactSoftSPIBBDQN
from spibb.deep.rules import PiBSPIBBDQN as PiBSPIBBDQN
from spibb.deep.rules import PiLeqBSPIBBDQN as PiLeqBSPIBBDQN
from spibb.deep.rules import RaMDPDQN as RaMDPDQN
from spibb.deep.training import Population as Population
from spibb.deep.training import train_population as train_population
from spibb.deep.training_data import TrainingData as TrainingData
from spibb.deep.transitions import Transitions as Transitions
