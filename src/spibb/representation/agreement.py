"""Does the gain of a policy survive in finer states than the policy acts in?

The log judges a policy that was made in labels by models of finer states. If labels hold what
matters, all models agree, up to sampling errors. If they hide a part of it, on which those who
acted relied or to which the new policy drives the process, the gain shrinks or turns into a loss.

Rule: in every refinement the gain must be larger than half of the gain in labels, by at least one
standard error of that difference. Both gains are of the same log, so that their errors are
correlated, and the standard error of gain - claim / 2 is that of the summed influences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spibb.data.features import Features
from spibb.data.log import Log
from spibb.representation.refine import Refiner
from spibb.representation.refined_gain import RefinedGain
from spibb.representation.steps import Array, Steps
from spibb.strict_json import strict_json
from spibb.words import percent

# The share of the claim that must survive, and by how many standard errors.
SURVIVING_SHARE, ERRORS = 0.5, 1.0
RULE = (
    f"The rule: in every refinement more than {percent(SURVIVING_SHARE)} of the gain in the states "
    f"must be left, by {ERRORS:g} standard error."
)
NO_COLUMNS = "no raw columns were given (--features)"
# Where the past leaves a trace of something hidden, so much must survive, and no more than the
# inverse: finer states that promise far more contradict the states as well. Of adequate states on
# the development half 95 % keep it.
STRONG_SURVIVING_SHARE = 0.8
# A loss of so many standard errors is one.
LOSS_ERRORS = 2.0
# Each set of states is a linear system.
MOST_STATES = 2_000


@dataclass(frozen=True)
class RefinedClaim:
    """A gain in one set of finer states, beside the claim.

    Attributes:
        name: How the finer states are made.
        gain: Gain of the policy over the behaviour in them.
        error: Its standard error.
        share: Of the claim; NaN where nothing is claimed.
        margin_error: Standard error of the gain minus half of the claim.
        label_loss: What acting by the behaviour's average within labels loses.
        unsupported: Share of the policy's decisions without data.
        n_states: Number of states.
        holds: Whether enough of the claim survives.
    """

    name: str
    gain: float
    error: float
    share: float
    margin_error: float
    label_loss: float
    unsupported: float
    n_states: int
    holds: bool


@dataclass(frozen=True)
class Agreement:
    """The claim in labels, and what is left of it in finer states.

    Attributes:
        columns: Raw columns that finer states are made of.
        claim: Gain of the policy over the behaviour in the model of labels.
        claim_error: Its standard error.
        refinements: The gain in each refinement.
        n_states: Number of labels with data.
        unsupported: Share of the policy's decisions without data, in labels.
    """

    columns: tuple[str, ...]
    claim: float
    claim_error: float
    refinements: tuple[RefinedClaim, ...]
    n_states: int = 0
    unsupported: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether enough of the claim survives in every refinement."""
        return all(one.holds for one in self.refinements)

    @property
    def is_strong(self) -> bool:
        """Whether every refinement says nearly the same as the claim, by the same factor."""
        least = STRONG_SURVIVING_SHARE
        return self.holds and all(least <= one.share <= 1.0 / least for one in self.refinements)

    @property
    def is_loss(self) -> bool:
        """Whether the gain is a loss in some refinement, by more than chance explains."""
        return any(one.gain < -LOSS_ERRORS * one.error for one in self.refinements)

    @property
    def worst(self) -> RefinedClaim:
        """The refinement in which least is left, of those that contradict the claim if any do."""
        return min(self.refinements, key=lambda one: (one.holds, one.gain))

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values."""
        said = {"rule": RULE, "holds": self.holds, "is_loss": self.is_loss}
        found: dict[str, Any] = strict_json({**asdict(self), **said})
        return found


def find_agreement(
    log: Log, table: Array, baseline: Array, gamma: float, features: Features | None = None
) -> Agreement | str:
    """Return the gains of a policy in finer states; or why there are none.

    Args:
        log: The log.
        table: The policy in labels, shape (S, A).
        baseline: The baseline in labels, shape (S, A).
        gamma: The discount.
        features: Raw columns; None: those of the log.
    """
    features = log.features if features is None else features
    if features is None:
        return NO_COLUMNS
    if log.n_states > MOST_STATES:
        return f"there are {log.n_states:,} states, more than {MOST_STATES:,}"
    features = features.checked(len(log))
    steps = Steps.of(log)
    if steps is None:
        return "rows are not connected by episodes, so the next row's columns are not known"
    refiner = Refiner.of(steps, features.values, table, baseline, gamma)
    claim = refiner.claim
    found = tuple(_beside(name, one, claim) for name, one in refiner.gains())
    gains = [(claim.gain, claim.error), *((one.gain, one.error) for one in found)]
    if not np.isfinite(gains).all():
        return "gains in finer states are no finite numbers on this log"
    return Agreement(
        features.names, claim.gain, claim.error, found, claim.n_states, claim.unsupported
    )


def _beside(name: str, found: RefinedGain, claim: RefinedGain) -> RefinedClaim:
    margin = found.minus(claim, SURVIVING_SHARE)
    return RefinedClaim(
        name=name,
        gain=found.gain,
        error=found.error,
        share=found.gain / claim.gain if claim.gain > 0.0 else float(np.nan),
        margin_error=margin.error,
        label_loss=found.label_loss,
        unsupported=found.unsupported,
        n_states=found.n_states,
        holds=claim.gain > 0.0 and margin.gain >= ERRORS * margin.error,
    )
