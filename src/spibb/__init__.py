"""Safe policy improvement from logged decisions.

>>> import spibb
>>> log = spibb.Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
...                             terminated=[True] * 4, episode=[0, 1, 2, 3])
>>> baseline = spibb.TabularPolicy([[0.5, 0.5]])
>>> result = spibb.PiBSPIBB(n_wedge=2).improve(log, baseline=baseline, gamma=0.9)
>>> result.policy.probabilities
array([[0., 1.]])

Names are loaded when they are first used, so that ``spibb --help`` does not wait for a compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spibb import deep as deep
    from spibb import envs as envs
    from spibb import ope as ope
    from spibb import operators as operators
    from spibb import testing as testing
    from spibb.algorithms.adv_soft_spibb import AdvApproxSoftSPIBB as AdvApproxSoftSPIBB
    from spibb.algorithms.adv_soft_spibb import ExactAdvSoftSPIBB as ExactAdvSoftSPIBB
    from spibb.algorithms.basic_rl import BasicRL as BasicRL
    from spibb.algorithms.duipi import DUIPI as DUIPI
    from spibb.algorithms.hcpi import HCPI as HCPI
    from spibb.algorithms.improvement import Improvement as Improvement
    from spibb.algorithms.lower_soft_spibb import ExactLowerSoftSPIBB as ExactLowerSoftSPIBB
    from spibb.algorithms.lower_soft_spibb import LowerApproxSoftSPIBB as LowerApproxSoftSPIBB
    from spibb.algorithms.many import Improvements as Improvements
    from spibb.algorithms.many import improve_many as improve_many
    from spibb.algorithms.mbie import MBIE as MBIE
    from spibb.algorithms.penalised import RaMDP as RaMDP
    from spibb.algorithms.penalised import RMin as RMin
    from spibb.algorithms.promise import Promise as Promise
    from spibb.algorithms.promise import plan_promise as plan_promise
    from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret as RobustBaselineRegret
    from spibb.algorithms.robust_mdp import RobustMDP as RobustMDP
    from spibb.algorithms.soft_spibb import ApproxSoftSPIBB as ApproxSoftSPIBB
    from spibb.algorithms.soft_spibb import ExactSoftSPIBB as ExactSoftSPIBB
    from spibb.algorithms.spibb_family import PiBSPIBB as PiBSPIBB
    from spibb.algorithms.spibb_family import PiLeqBSPIBB as PiLeqBSPIBB
    from spibb.certify.audit import audit as audit
    from spibb.certify.certificate import Certificate as Certificate
    from spibb.data.baseline import estimate_baseline as estimate_baseline
    from spibb.data.counts import Counts as Counts
    from spibb.data.log import Log as Log
    from spibb.data.readers import read_log as read_log
    from spibb.errors import SpibbError as SpibbError
    from spibb.mdp.evaluation import Evaluation as Evaluation
    from spibb.mdp.evaluation import evaluate as evaluate
    from spibb.mdp.model import TabularMDP as TabularMDP
    from spibb.mdp.planning import Status as Status
    from spibb.mdp.planning import solve as solve
    from spibb.mdp.policy import TabularPolicy as TabularPolicy
    from spibb.ope.evaluate import PolicyEvaluation as PolicyEvaluation
    from spibb.ope.evaluate import evaluate_policy as evaluate_policy
    from spibb.problem import Problem as Problem
    from spibb.report import figures as figures
    from spibb.report.comparison import Comparison as Comparison
    from spibb.report.comparison import compare as compare
    from spibb.report.study_figures import draw_study as draw_study
    from spibb.uncertainty.error_functions import EmpiricalBernstein as EmpiricalBernstein
    from spibb.uncertainty.error_functions import GivenErrors as GivenErrors
    from spibb.uncertainty.error_functions import HoeffdingP as HoeffdingP
    from spibb.uncertainty.error_functions import HoeffdingQ as HoeffdingQ
    from spibb.uncertainty.error_functions import HoeffdingReturns as HoeffdingReturns
    from spibb.uncertainty.thresholds import n_wedge as n_wedge
    from spibb.uncertainty.thresholds import zeta as zeta

__version__ = "0.1.0"

_HOME = {
    "HCPI": "spibb.algorithms.hcpi",
    "RobustMDP": "spibb.algorithms.robust_mdp",
    "RobustBaselineRegret": "spibb.algorithms.robust_baseline_regret",
    "MBIE": "spibb.algorithms.mbie",
    "zeta": "spibb.uncertainty.thresholds",
    "n_wedge": "spibb.uncertainty.thresholds",
    "HoeffdingReturns": "spibb.uncertainty.error_functions",
    "RMin": "spibb.algorithms.penalised",
    "RaMDP": "spibb.algorithms.penalised",
    "DUIPI": "spibb.algorithms.duipi",
    "ExactLowerSoftSPIBB": "spibb.algorithms.lower_soft_spibb",
    "LowerApproxSoftSPIBB": "spibb.algorithms.lower_soft_spibb",
    "ExactAdvSoftSPIBB": "spibb.algorithms.adv_soft_spibb",
    "AdvApproxSoftSPIBB": "spibb.algorithms.adv_soft_spibb",
    "ApproxSoftSPIBB": "spibb.algorithms.soft_spibb",
    "BasicRL": "spibb.algorithms.basic_rl",
    "Certificate": "spibb.certify.certificate",
    "Comparison": "spibb.report.comparison",
    "Counts": "spibb.data.counts",
    "EmpiricalBernstein": "spibb.uncertainty.error_functions",
    "Evaluation": "spibb.mdp.evaluation",
    "ExactSoftSPIBB": "spibb.algorithms.soft_spibb",
    "GivenErrors": "spibb.uncertainty.error_functions",
    "HoeffdingP": "spibb.uncertainty.error_functions",
    "HoeffdingQ": "spibb.uncertainty.error_functions",
    "Improvement": "spibb.algorithms.improvement",
    "Improvements": "spibb.algorithms.many",
    "Log": "spibb.data.log",
    "PolicyEvaluation": "spibb.ope.evaluate",
    "Problem": "spibb.problem",
    "Promise": "spibb.algorithms.promise",
    "PiBSPIBB": "spibb.algorithms.spibb_family",
    "PiLeqBSPIBB": "spibb.algorithms.spibb_family",
    "SpibbError": "spibb.errors",
    "Status": "spibb.mdp.planning",
    "TabularMDP": "spibb.mdp.model",
    "TabularPolicy": "spibb.mdp.policy",
    "audit": "spibb.certify.audit",
    "compare": "spibb.report.comparison",
    "draw_study": "spibb.report.study_figures",
    "estimate_baseline": "spibb.data.baseline",
    "evaluate": "spibb.mdp.evaluation",
    "evaluate_policy": "spibb.ope.evaluate",
    "improve_many": "spibb.algorithms.many",
    "plan_promise": "spibb.algorithms.promise",
    "read_log": "spibb.data.readers",
    "solve": "spibb.mdp.planning",
}

_PACKAGES = {
    "deep": "spibb.deep",
    "envs": "spibb.envs",
    "figures": "spibb.report.figures",
    "ope": "spibb.ope",
    "operators": "spibb.operators",
    "testing": "spibb.testing",
}

__all__ = [*sorted(_HOME), *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(_PACKAGES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'spibb' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
