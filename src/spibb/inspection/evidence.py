"""What the checks of a log look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import align_policy
from spibb.data.baseline_fit import BaselineFit, baseline_fit
from spibb.data.counts import Counts
from spibb.data.direction import check_sign
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.errors import DataError, SettingsError
from spibb.inspection.duplicates import are_copied, multiplicities, without_copies
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Baseline, Problem
from spibb.problem.baselines import pair_counts
from spibb.problem.direction import refuse_turning
from spibb.problem.loggers import checked_improved, names_of, own_baseline, own_rows
from spibb.representation.hidden_columns import HiddenColumns


@dataclass(frozen=True, eq=False)
class Evidence:
    """A log, and what is known of it; derived parts are computed once, when they are first used.

    Attributes:
        log: The log.
        counts: Its counts.
        baseline: The policy that is said to have made it, in its states and actions; None: unknown.
        reward_range: Smallest and largest possible reward; None: unknown.
        improved: The behaviour policy that runs today, where the log names several.
        gamma: The discount of what follows; where none is known, that of twenty steps.
    """

    log: Log
    counts: Counts
    baseline: TabularPolicy | None = None
    reward_range: tuple[float, float] | None = None
    improved: str | None = None
    gamma: float = 0.95

    @classmethod
    def of(
        cls,
        log: Any,
        *,
        baseline: Baseline | None = None,
        reward_range: tuple[float, float] | None = None,
        improve_on: str | None = None,
        minimize: bool = False,
    ) -> Evidence:
        """Gather what :func:`spibb.inspect` was given; its arguments are described there."""
        if isinstance(log, Problem):
            if minimize or not (baseline is None and reward_range is None and improve_on is None):
                raise SettingsError(
                    "a problem was given, and more beside it",
                    expected="a problem alone: it has its baseline and its range of rewards",
                )
            return cls._of_problem(log)
        if isinstance(log, Counts):
            raise DataError(
                "only counts were given", expected="a log", hint="inspect the log itself"
            )
        data = log if isinstance(log, Log) else _read(log, minimize=minimize)
        if minimize and not data.minimize:
            refuse_turning(data)
        if reward_range is not None:
            reward_range = _checked_range(reward_range)
            seen = float(data.reward.min()), float(data.reward.max())
            check_sign(
                reward_range, seen, name="reward_range", what="rewards", minimize=data.minimize
            )
        improved, given = None, baseline
        if given is not None or improve_on is not None:
            improved = checked_improved(data, improve_on)
            given, _ = own_baseline(data, given, improved)
        if given is None or (isinstance(given, str) and given == "estimate"):
            return cls(data, Counts.from_log(data), None, reward_range, improved)
        if not isinstance(given, TabularPolicy):
            raise SettingsError(
                f"baseline is {given!r}",
                expected="a TabularPolicy, 'estimate' or None",
                hint="read a file by TabularPolicy.read, or make one of an array by TabularPolicy",
            )
        data = data.renamed(data.states.union(given.states), data.actions.union(given.actions))
        counts = Counts.from_log(data)
        policy = align_policy(counts, given, role="baseline", log=data)
        return cls(data, counts, policy, reward_range, improved)

    @classmethod
    def _of_problem(cls, problem: Problem) -> Evidence:
        if problem.whole is None:
            raise DataError(
                "only counts were given", expected="a log", hint="inspect the log itself"
            )
        values, loggers = problem.values, problem.loggers
        return cls(
            log=problem.whole,
            counts=problem.counts,
            baseline=problem.baseline,
            reward_range=None if values.is_observed else (values.low, values.high),
            improved=None if loggers is None else loggers.improved,
            gamma=problem.gamma,
        )

    @property
    def has_several_policies(self) -> bool:
        """Whether several policies acted, and none of them is asked about."""
        return self.improved is None and len(names_of(self.log)) > 1

    @cached_property
    def multiplicities(self) -> NDArray[np.int64]:
        """How often each different episode occurs; each different row in a log without episodes."""
        return multiplicities(self.log)

    @cached_property
    def log_without_copies(self) -> Log:
        """The log for tests that permute, which would take copies of episodes for evidence.

        It is the log itself unless the check for duplicates finds copies.
        """
        return without_copies(self.log) if are_copied(self.multiplicities) else self.log

    @cached_property
    def own_log(self) -> Log:
        """The rows of the behaviour policy that runs today."""
        return self._own_part(self.log)

    @cached_property
    def own_log_without_copies(self) -> Log:
        """Likewise, for tests that permute."""
        return self._own_part(self.log_without_copies)

    @cached_property
    def hidden_columns(self) -> HiddenColumns | None:
        """What raw columns explain beyond states; None where there are none."""
        log = self.own_log
        features = log.features
        return None if features is None else HiddenColumns(log, features, self.gamma)

    @cached_property
    def own_n_sa(self) -> NDArray[np.int64]:
        """How often that policy took every pair, in rows without a transition too."""
        return pair_counts(self.own_log)

    @cached_property
    def baseline_fit(self) -> BaselineFit | None:
        """How well the baseline fits its rows.

        None where no baseline was given, it was estimated, or it cannot have made the rows.
        """
        if self.baseline is None or self.baseline.is_estimated:
            return None
        n_sa, b = self.own_n_sa, self.baseline.probabilities
        return None if ((n_sa > 0) & (b == 0.0)).any() else baseline_fit(n_sa, b)

    @property
    def preferences(self) -> NDArray[np.float64]:
        """Probabilities of the baseline, or counts of pairs without one, shape (S, A)."""
        if self.baseline is None:
            return self.counts.n_sa.astype(np.float64)
        return self.baseline.probabilities

    def _own_part(self, log: Log) -> Log:
        return log if self.improved is None else log.take(own_rows(log, self.improved))


def _read(log: Any, *, minimize: bool) -> Log:
    read = read_log if isinstance(log, str | Path) else Log.from_dataframe
    return read(log, minimize=minimize)


def _checked_range(reward_range: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in reward_range)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise SettingsError(f"reward_range is {reward_range!r}", expected="(low, high), finite")
    return low, high
