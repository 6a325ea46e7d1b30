"""The way from a log to a problem: what algorithms, audits, evaluations and studies start from."""

from spibb.problem.batch import ProblemBatch
from spibb.problem.limits import Limits
from spibb.problem.problem import Baseline, Problem, ProblemOptions

__all__ = ["Baseline", "Limits", "Problem", "ProblemBatch", "ProblemOptions"]
