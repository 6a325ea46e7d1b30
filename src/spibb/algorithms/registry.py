"""The only list of algorithms."""

from __future__ import annotations

from spibb.algorithms.adv_soft_spibb import AdvApproxSoftSPIBB, ExactAdvSoftSPIBB
from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.algorithms.base import Algorithm
from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.decision_points import DecisionPoints
from spibb.algorithms.duipi import DUIPI
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.lower_soft_spibb import ExactLowerSoftSPIBB, LowerApproxSoftSPIBB
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.penalised import RaMDP, RMin
from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB, PiLeqBSPIBB

ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.id: kind
    for kind in (
        BasicRL,
        PiBSPIBB,
        PiLeqBSPIBB,
        ExactSoftSPIBB,
        ApproxSoftSPIBB,
        ExactAdvSoftSPIBB,
        AdvApproxSoftSPIBB,
        ExactLowerSoftSPIBB,
        LowerApproxSoftSPIBB,
        RaMDP,
        RMin,
        DUIPI,
        RobustMDP,
        RobustBaselineRegret,
        MBIE,
        HCPI,
        AutoSPIBB,
        DecisionPoints,
    )
}
