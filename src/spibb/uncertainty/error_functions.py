r"""Error functions e(x, a): how far an estimate may be from the truth, for every pair.

With N = N(x, a), natural logarithms, and never a power of two in sight: log 2^|X| is |X| log 2.

* e_P = sqrt((2 / N) (log(2 |X| |A| / delta) + |X| log 2)): with probability 1 - delta, for all
  pairs, ||P* - P^||_1 <= e_P and |R* - R^| <= e_P R_max (the paper's equation for P; Weissman et
  al. 2003 and Hoeffding). The paper's constant covers |X| + 1 outcomes, so ending counts as one.
* e_Q = sqrt((2 / N) log(2 |X| |A| / delta)): the paper's |Q* - Q^| <= e_Q V_max for the baseline.
  It treats a value of the estimated model as a mean of N independent returns, which it is on logs
  of one step alone; beyond, the inequality is false (docs/guarantees.md).
* Empirical Bernstein (Maurer and Pontil 2009) for the mean of first-visit returns, with n of them
  and sample variance s^2 of the returns scaled to [0, 1]:
  2 [sqrt((2 s^2 / n) L) + 7 L / (3 (n - 1))], L = log(4 |X| |A| / delta). Here the means are means,
  and given which episodes visit a pair their returns are independent: no count is taken as fixed.
* Hoeffding for the same means: sqrt((2 / n) log(2 |X| |A| / delta)), e_Q with n returns for N rows.

Pairs without data have error inf. delta = 1 turns an error function into a mere scale.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.errors import SMALLEST, SettingsError, checked_number
from spibb.problem import Problem, ProblemBatch
from spibb.settings import Settings

# What an error function bounds: the model's Q of the baseline, its Monte-Carlo Q, P and R, nothing.
Meaning = Literal["model-q", "return-q", "model-p", "none"]


@dataclass(frozen=True)
class ErrorFunction(Settings):
    """An error for every state-action pair; a subclass says what it is called and computes it."""

    family: ClassVar[str] = "error"
    meaning: ClassVar[Meaning] = "none"

    @abstractmethod
    def errors(self, problem: Problem, delta: float) -> NDArray[np.float64]:
        """Return e(x, a) >= 0, shape (S, A), infinite where nothing is known."""

    def of_batch(self, problems: ProblemBatch, delta: float) -> NDArray[np.float64]:
        """Return the errors of every problem, shape (B, S, A); not to be written to."""
        return np.stack([self.errors(problem, delta) for problem in problems])

    @property
    def needs_log(self) -> bool:
        """Whether counts do not suffice."""
        return self.meaning == "return-q"


def checked_delta(delta: float, name: str = "delta") -> float:
    """Return the confidence level as a float, or refuse it by its name."""
    return checked_number(delta, name, "a number in (0, 1]", least=SMALLEST, most=1.0)


def _hoeffding(n: NDArray[np.int64], delta: float, log_sets: float = 0.0) -> NDArray[np.float64]:
    """Return sqrt((2 / n) (log(2 |X| |A| / delta) + log_sets)) for counts of shape (..., S, A)."""
    log_term = np.log(2.0 * n.shape[-2] * n.shape[-1]) - np.log(delta) + log_sets
    squared = np.divide(2.0 * log_term, n, out=np.full(n.shape, np.inf), where=n > 0)
    return np.asarray(np.sqrt(squared))


@dataclass(frozen=True)
class ErrorOfCounts(ErrorFunction):
    """An error that depends on the counts alone."""

    @abstractmethod
    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return the errors for counts of shape (..., S, A)."""

    def errors(self, problem: Problem, delta: float) -> NDArray[np.float64]:
        """Return the errors of one log."""
        return self.of_counts(problem.counts.n_sa, delta)

    def of_batch(self, problems: ProblemBatch, delta: float) -> NDArray[np.float64]:
        """Return the errors of every problem, computed once."""
        if (self, delta) not in problems.memory:
            found = self.of_counts(problems.n_sa, delta)
            found.setflags(write=False)
            problems.memory[self, delta] = found
        return problems.memory[self, delta]


@dataclass(frozen=True)
class HoeffdingQ(ErrorOfCounts):
    """The paper's e_Q: error of the baseline's Q, in units of V_max."""

    id: ClassVar[str] = "hoeffding-q"
    meaning: ClassVar[Meaning] = "model-q"

    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return e_Q."""
        return _hoeffding(n_sa, delta)


@dataclass(frozen=True)
class HoeffdingP(ErrorOfCounts):
    """The paper's e_P: L1 error of the transition probabilities."""

    id: ClassVar[str] = "hoeffding-p"
    meaning: ClassVar[Meaning] = "model-p"

    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return e_P."""
        return _hoeffding(n_sa, delta, n_sa.shape[-2] * np.log(2.0))


@dataclass(frozen=True)
class HoeffdingReturns(ErrorFunction):
    """Hoeffding's error of the mean first-visit return; needs a log with episodes."""

    id: ClassVar[str] = "hoeffding-returns"
    meaning: ClassVar[Meaning] = "return-q"

    def errors(self, problem: Problem, delta: float) -> NDArray[np.float64]:
        """Return sqrt((2 / n) log(2 |X| |A| / delta)) for n returns, plus what was cut off."""
        returns = problem.returns()
        missing = problem.values.reach(returns.completion) * returns.cut
        return _hoeffding(returns.n, delta) + missing


@dataclass(frozen=True)
class EmpiricalBernstein(ErrorFunction):
    """Error of the mean first-visit return, in units of V_max; needs a log with episodes."""

    id: ClassVar[str] = "empirical-bernstein"
    meaning: ClassVar[Meaning] = "return-q"

    def errors(self, problem: Problem, delta: float) -> NDArray[np.float64]:
        """Return the Maurer-Pontil error, plus what truncation may have cut off.

        The bound is on the mean of whole returns, whose spread is at most that of the completed
        ones plus that of what completes them.
        """
        returns = problem.returns()
        many = returns.n > 1
        n = np.where(many, returns.n, 2)
        log_term = np.log(4.0 * n.size) - np.log(delta)
        width = 2.0 * problem.values.v_max
        reach = problem.values.reach(returns.completion)
        spread = np.sqrt(returns.variance) / width if width > 0 else np.zeros(n.shape)
        spread += reach / 2.0 * np.sqrt(n / (n - 1) * returns.cut_square)
        error = 2.0 * (spread * np.sqrt(2.0 * log_term / n) + 7.0 * log_term / (3.0 * (n - 1)))
        error += reach * returns.cut
        return np.where(many, error, np.inf)


@dataclass(frozen=True, eq=False)
class GivenErrors(ErrorFunction):
    """Errors that the user supplies, shape (S, A); no theorem is claimed for them."""

    values: NDArray[np.float64]
    id: ClassVar[str] = "given"

    def __init__(self, values: ArrayLike) -> None:
        array = np.array(values, dtype=np.float64)
        if array.ndim != 2 or np.isnan(array).any() or (array < 0).any():
            raise SettingsError(
                f"errors of shape {array.shape}",
                expected="numbers >= 0 (inf allowed), shape (states, actions)",
            )
        array.setflags(write=False)
        object.__setattr__(self, "values", array)

    def errors(self, problem: Problem, delta: float) -> NDArray[np.float64]:
        """Return the given errors."""
        if self.values.shape != problem.counts.n_sa.shape:
            raise SettingsError(
                f"errors of shape {self.values.shape}",
                expected=f"{problem.counts.n_sa.shape}, the log's states and actions",
            )
        return self.values
