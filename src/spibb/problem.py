"""The way from a log to a problem: what algorithms, audits and comparisons start from."""

from __future__ import annotations

from dataclasses import dataclass

from spibb.data.baseline import align, align_to_counts, check_baseline
from spibb.data.counts import Counts, Estimate
from spibb.data.estimate import Unseen
from spibb.data.log import Log
from spibb.errors import SettingsError
from spibb.mdp.model import TabularMDP, checked_gamma
from spibb.mdp.policy import TabularPolicy
from spibb.uncertainty.declared import Declared, Start, Successors
from spibb.uncertainty.error_functions import Evidence
from spibb.uncertainty.ranges import ValueRange


@dataclass(frozen=True, eq=False)
class Problem:
    """A log and the policy that made it, brought together.

    Attributes:
        evidence: Counts, range of rewards, the log where it was given, and what was declared.
        baseline: The policy that made the log, in the states and actions of the counts.
        gamma: The discount.
        unseen: What pairs without data do in the estimated model.

    Example:
        >>> log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 3.0], episode=[0, 1])
        >>> problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> problem.model().reward
        array([[1., 3.]])
    """

    evidence: Evidence
    baseline: TabularPolicy
    gamma: float
    unseen: Unseen = "average"

    @classmethod
    def of(
        cls,
        log: Log | Counts,
        *,
        baseline: TabularPolicy,
        gamma: float,
        reward_range: tuple[float, float] | None = None,
        initial: Start | None = None,
        unseen: Unseen = "average",
        states_complete: bool = False,
        never_ends: bool = False,
        successors: Successors | None = None,
    ) -> Problem:
        """Align a log and its baseline, and check what is said about both.

        Args:
            log: The log that the baseline made, or its counts where counts suffice.
            baseline: The policy that made the log.
            gamma: The discount, in [0, 1]; 1 where every policy in play ends.
            reward_range: Smallest and largest possible reward; None: those in the log.
            initial: Distribution of the first state, a mapping from states to probabilities, or a
                list where states are numbers; None: as the episodes of the log begin.
            unseen: What pairs without data do in the estimated model: what was seen in their
                state on average, or "terminal", "uniform", "self-loop".
            states_complete: Declares that the process has no states but those of log and baseline.
            never_ends: Declares that the process never ends.
            successors: Declares what may follow: rows (state, next_state) or (state, action,
                next_state), or "seen" for what followed in the log.
        """
        gamma = checked_gamma(gamma)
        if isinstance(log, Log):
            log, baseline = align(log, baseline)
        counts = log if isinstance(log, Counts) else Counts.from_log(log)
        baseline = align_to_counts(counts, baseline)
        check_baseline(counts, baseline)
        declared = Declared.of(
            counts,
            initial=initial,
            states_complete=states_complete,
            never_ends=never_ends,
            successors=successors,
        )
        if declared.never_ends and unseen != "average":
            raise SettingsError(
                f"never_ends with unseen = {unseen!r}, which lets pairs end, or pay 0 for ever",
                expected="unseen = 'average' where the process is declared never to end",
            )
        values = ValueRange.of(counts, gamma, reward_range, never_ends=declared.never_ends)
        evidence = Evidence(counts, values, log if isinstance(log, Log) else None, declared)
        return cls(evidence, baseline, gamma, unseen)

    @property
    def counts(self) -> Counts:
        """Counts of the log."""
        return self.evidence.counts

    def model(self) -> TabularMDP:
        """Return the estimated model."""
        return self.counts.to_mdp(self.gamma, self.unseen, self.evidence.declared.initial)

    def estimate(self) -> Estimate:
        """Return the arrays of the estimated model without building and checking it."""
        return self.counts.estimate(self.gamma, self.unseen, self.evidence.declared.initial)
