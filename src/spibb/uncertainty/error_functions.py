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

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.data.returns import Returns, first_visit_returns
from spibb.errors import DataError, SettingsError
from spibb.uncertainty.declared import Declared
from spibb.uncertainty.ranges import ValueRange


@dataclass(frozen=True, eq=False)
class Evidence:
    """What error functions may look at.

    Attributes:
        counts: Counts of the log.
        values: Range of rewards and values, with the discount.
        log: The log itself, where it was given.
        declared: What the user knows beyond it.
    """

    counts: Counts
    values: ValueRange
    log: Log | None = None
    declared: Declared = field(default_factory=Declared)

    def returns(self) -> Returns:
        """First-visit returns of the log."""
        if self.log is None:
            raise DataError(
                "only counts were given, but this error function needs returns",
                expected="a Log with episodes",
                hint="pass the log instead of its counts, or use HoeffdingQ",
            )
        return first_visit_returns(self.log, self.values.gamma)


class EvidenceBatch(Sequence[Evidence]):
    """The evidence of many problems of one shape, each part made when it is asked for.

    Args:
        n_sa: N(x, a) of every problem, shape (B, S, A).
        make: Returns the evidence of a problem.
    """

    def __init__(self, n_sa: NDArray[np.int64], make: Callable[[int], Evidence]) -> None:
        self.n_sa = n_sa
        self._make = make
        self._errors: dict[Any, NDArray[np.float64]] = {}

    @classmethod
    def of(cls, parts: Sequence[Evidence]) -> EvidenceBatch:
        """Take evidence that is there already."""
        return cls(np.stack([part.counts.n_sa for part in parts]), parts.__getitem__)

    def __len__(self) -> int:
        return len(self.n_sa)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._make(one) for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return self._make(int(place) % len(self))

    def errors(self, error: ErrorFunction, delta: float) -> NDArray[np.float64]:
        """Return the errors of every problem, shape (B, S, A); not to be written to."""
        if isinstance(error, ByCounts):
            # Settings often differ in the budget alone.
            if (error, delta) not in self._errors:
                found = error.of_counts(self.n_sa, delta)
                found.setflags(write=False)
                self._errors[error, delta] = found
            return self._errors[error, delta]
        return np.stack([error.errors(part, delta) for part in self])


# What an error function bounds: the model's Q of the baseline, its Monte-Carlo Q, P and R, nothing.
Meaning = Literal["model-q", "return-q", "model-p", "none"]


class ErrorFunction(Protocol):
    """An error for every state-action pair."""

    id: ClassVar[str]
    meaning: ClassVar[Meaning]

    def errors(self, evidence: Evidence, delta: float) -> NDArray[np.float64]:
        """Return e(x, a) >= 0, shape (S, A), infinite where nothing is known."""


def checked_delta(delta: float, name: str = "delta") -> float:
    """Return the confidence level as a float, or refuse it by its name."""
    value = float(delta)
    if not 0.0 < value <= 1.0:
        raise SettingsError(f"{name} is {delta}", expected="a number in (0, 1]")
    return value


def _hoeffding(n: NDArray[np.int64], log_term: float) -> NDArray[np.float64]:
    squared = np.divide(2.0 * log_term, n, out=np.full(n.shape, np.inf), where=n > 0)
    return np.asarray(np.sqrt(squared))


@dataclass(frozen=True)
class ByCounts(ABC):
    """An error that depends on the counts alone."""

    @abstractmethod
    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return the errors for counts of shape (..., S, A)."""

    def errors(self, evidence: Evidence, delta: float) -> NDArray[np.float64]:
        """Return the errors of one log."""
        return self.of_counts(evidence.counts.n_sa, delta)


@dataclass(frozen=True)
class HoeffdingQ(ByCounts):
    """The paper's e_Q: error of the baseline's Q, in units of V_max."""

    id: ClassVar[str] = "hoeffding-q"
    meaning: ClassVar[Meaning] = "model-q"

    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return e_Q."""
        n_states, n_actions = n_sa.shape[-2:]
        return _hoeffding(n_sa, np.log(2.0 * n_states * n_actions) - np.log(delta))


@dataclass(frozen=True)
class HoeffdingP(ByCounts):
    """The paper's e_P: L1 error of the transition probabilities."""

    id: ClassVar[str] = "hoeffding-p"
    meaning: ClassVar[Meaning] = "model-p"

    def of_counts(self, n_sa: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
        """Return e_P."""
        n_states, n_actions = n_sa.shape[-2:]
        pairs = np.log(2.0 * n_states * n_actions) - np.log(delta)
        return _hoeffding(n_sa, pairs + n_states * np.log(2.0))


@dataclass(frozen=True)
class HoeffdingReturns:
    """Hoeffding's error of the mean first-visit return; needs a log with episodes."""

    id: ClassVar[str] = "hoeffding-returns"
    meaning: ClassVar[Meaning] = "return-q"

    def errors(self, evidence: Evidence, delta: float) -> NDArray[np.float64]:
        """Return sqrt((2 / n) log(2 |X| |A| / delta)) for n returns, plus what was cut off."""
        returns = evidence.returns()
        error = _hoeffding(returns.n, np.log(2.0 * returns.n.size) - np.log(delta))
        return error + evidence.values.reach(returns.completion) * returns.cut


@dataclass(frozen=True)
class EmpiricalBernstein:
    """Error of the mean first-visit return, in units of V_max; needs a log with episodes."""

    id: ClassVar[str] = "empirical-bernstein"
    meaning: ClassVar[Meaning] = "return-q"

    def errors(self, evidence: Evidence, delta: float) -> NDArray[np.float64]:
        """Return the Maurer-Pontil error, plus what truncation may have cut off.

        The bound is on the mean of whole returns, whose spread is at most that of the completed
        ones plus that of what completes them.
        """
        returns = evidence.returns()
        many = returns.n > 1
        n = np.where(many, returns.n, 2)
        log_term = np.log(4.0 * n.size) - np.log(delta)
        width = 2.0 * evidence.values.v_max
        reach = evidence.values.reach(returns.completion)
        spread = np.sqrt(returns.variance) / width if width > 0 else np.zeros(n.shape)
        spread += reach / 2.0 * np.sqrt(n / (n - 1) * returns.cut_square)
        error = 2.0 * (spread * np.sqrt(2.0 * log_term / n) + 7.0 * log_term / (3.0 * (n - 1)))
        error += reach * returns.cut
        return np.where(many, error, np.inf)


@dataclass(frozen=True, eq=False)
class GivenErrors:
    """Errors that the user supplies, shape (S, A); no theorem is claimed for them."""

    values: NDArray[np.float64] = field()
    id: ClassVar[str] = "given"
    meaning: ClassVar[Meaning] = "none"

    def __init__(self, values: ArrayLike) -> None:
        array = np.array(values, dtype=np.float64)
        if array.ndim != 2 or np.isnan(array).any() or (array < 0).any():
            raise SettingsError(
                f"errors of shape {array.shape}",
                expected="numbers >= 0 (inf allowed), shape (states, actions)",
            )
        array.setflags(write=False)
        object.__setattr__(self, "values", array)

    def errors(self, evidence: Evidence, delta: float) -> NDArray[np.float64]:
        """Return the given errors."""
        if self.values.shape != evidence.counts.n_sa.shape:
            raise SettingsError(
                f"errors of shape {self.values.shape}",
                expected=f"{evidence.counts.n_sa.shape}, the log's states and actions",
            )
        return self.values


ERROR_FUNCTIONS: dict[str, type[Any]] = {
    kind.id: kind
    for kind in (HoeffdingQ, HoeffdingP, HoeffdingReturns, EmpiricalBernstein, GivenErrors)
}
