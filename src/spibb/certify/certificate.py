"""A promise as an object: what is guaranteed, on which conditions, which of them were checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.display import Card, Display
from spibb.strict_json import VERSION, strict_json


@dataclass(frozen=True)
class Condition:
    """Something a theorem asks for.

    Attributes:
        name: Short name.
        statement: What must hold.
        is_checked: Whether it was checked on this result.
        is_satisfied: The outcome; None where it cannot be checked.
        value: The number found, if there is one.
        limit: What the number was held against.
        n_violations: In how many states, or pairs, it fails.
        where: The first place where it fails.
    """

    name: str
    statement: str
    is_checked: bool = True
    is_satisfied: bool | None = None
    value: float | None = None
    limit: float | None = None
    n_violations: int = 0
    where: str | None = None

    @property
    def summary(self) -> str:
        """One line for people."""
        outcome = {True: "holds", False: "fails", None: "not checked"}[self.is_satisfied]
        found = "" if self.value is None else f", found {self.value:.6g}"
        against = "" if self.limit is None else f" (limit {self.limit:.6g})"
        place = "" if self.where is None else f"; first at {self.where}"
        return f"{self.statement}: {outcome}{found}{against}{place}"


@dataclass(frozen=True)
class Guarantee:
    """One theorem, applied to one policy.

    Attributes:
        theorem: Its name.
        statement: What it says.
        conditions: What it asks for, with the outcome of each check.
        assumptions: What it asks for that cannot be checked on a log.
        delta: With probability at least 1 - delta over logs ...
        bound: ... the true performance of the policy minus that of the baseline is at least this.
            None where a condition fails: then nothing is claimed.
        details: The numbers the bound is made of.
        worst_loss: The largest loss that is possible at all; a bound below it says nothing.
        is_exact: Whether it holds at this delta for every process and every size of the log, as
            far as the assumptions do, of which none was read off the log. An approximate one may
            fail more often than delta says.
        proviso: What was read off the log and may be otherwise, as a clause; None: nothing.
    """

    theorem: str
    statement: str
    conditions: tuple[Condition, ...]
    assumptions: tuple[str, ...]
    delta: float
    bound: float | None
    details: dict[str, float]
    worst_loss: float
    is_exact: bool = True
    proviso: str | None = None

    @property
    def applies(self) -> bool:
        """Whether every condition was checked and holds."""
        return self.bound is not None

    @property
    def is_vacuous(self) -> bool:
        """Whether it applies but allows the worst loss that is possible anyway."""
        return self.bound is not None and self.bound <= -self.worst_loss

    @property
    def failed(self) -> tuple[Condition, ...]:
        """The conditions that do not hold."""
        return tuple(c for c in self.conditions if c.is_satisfied is not True)

    @property
    def summary(self) -> str:
        """One sentence for people."""
        if self.bound is None:
            reasons = "; ".join(condition.summary for condition in self.failed)
            return f"{self.theorem} does not apply: {reasons}."
        most = f"no policy can lose more than {self.worst_loss:.6g}"
        proviso = "" if self.proviso is None else f", {self.proviso}"
        if self.is_vacuous:
            return (
                f"{self.theorem} applies, but says nothing useful: it allows a loss of "
                f"{-self.bound + 0.0:.6g}, and {most}{proviso}."
            )
        is_rough = self.proviso is None and not self.is_exact
        return (
            f"{self.theorem}: {'approximately ' * is_rough}with probability at least "
            f"{1 - self.delta:g}{proviso}, and under the stated assumptions, the policy's true "
            f"performance is at least the baseline's {'+' if self.bound >= 0 else '-'} "
            f"{abs(self.bound):.6g}{'' if self.bound >= 0 else f' ({most})'}."
        )


@dataclass(frozen=True, eq=False)
class StateAudit:
    """The checks, state by state; all shapes (S,).

    Attributes:
        spent: Budget spent, sum_a e |pi - pi_b|.
        moved: Probability moved, half the L1 distance to the baseline.
        advantage: sum_a pi(a) A_b(x, a) in the estimated model.
        improvement: V - V_b in the estimated model.
        n_rows: Rows of the log in this state.
    """

    spent: NDArray[np.float64]
    moved: NDArray[np.float64]
    advantage: NDArray[np.float64]
    improvement: NDArray[np.float64]
    n_rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Display):
    """What can be said of a policy, and what cannot.

    Attributes:
        guarantee: What is claimed, decided before the data were seen: the regret test, or for an
            algorithm that tests on held-out episodes by an exact bound, that test.
        others: What stands beside it: the theorem that the algorithm was published with, under its
            conditions, and approximate tests. Each has a delta of its own: choosing the best after
            having seen several costs the sum of their deltas.
        checks: What was checked on the result whatever the theorem.
        delta: Allowed probability of error of the guarantee.
        states: The checks, state by state.
        origin: Whether the policy was made of the log that judges it, in words; None: it was.
    """

    guarantee: Guarantee
    others: tuple[Guarantee, ...]
    checks: tuple[Condition, ...]
    delta: float
    states: StateAudit
    origin: str | None = None

    @property
    def is_guaranteed(self) -> bool:
        """Whether what is claimed applies to this result."""
        return self.guarantee.applies

    @property
    def bound(self) -> float | None:
        """Lower bound on the true improvement, or None where nothing is guaranteed."""
        return self.guarantee.bound

    @property
    def statement(self) -> str:
        """The certificate in a sentence or two."""
        if not self.guarantee.applies:
            return f"Nothing is guaranteed. {self.guarantee.summary}"
        return self.guarantee.summary

    def _card(self) -> Card:
        facts = {"guarantee": self.statement}
        facts |= {f"beside it, {place}": one.summary for place, one in enumerate(self.others, 1)}
        facts |= {one.name: one.summary for one in self.checks}
        return Card(f"Certificate at delta {self.delta:g}", facts)

    def check(self, name: str) -> Condition:
        """Return one of the checks by name."""
        return next(condition for condition in self.checks if condition.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain JSON values; infinite numbers become strings."""
        found = {
            "format": "spibb-certificate",
            "version": VERSION,
            "statement": self.statement,
            "is_guaranteed": self.is_guaranteed,
            "bound": self.bound,
            "delta": self.delta,
            "guarantee": _guarantee_dict(self.guarantee),
            "others": [_guarantee_dict(other) for other in self.others],
            "checks": [asdict(check) for check in self.checks],
            **({} if self.origin is None else {"origin": self.origin}),
        }
        plain: dict[str, Any] = strict_json(found)
        return plain


def _guarantee_dict(guarantee: Guarantee) -> dict[str, Any]:
    return {
        **asdict(guarantee),
        "applies": guarantee.applies,
        "is_vacuous": guarantee.is_vacuous,
        "summary": guarantee.summary,
    }
