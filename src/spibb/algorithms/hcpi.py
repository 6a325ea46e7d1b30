r"""High-confidence policy improvement (Thomas, Theocharous, Ghavamzadeh, ICML 2015).

Learn candidates from one part of the episodes, choose the one whose lower bound on the other part
is predicted to be largest, and test it there, once:

    return pi  if  L(rho(pi) - rho(pi_b); held-out episodes, delta) >= 0,  else pi_b

Guarantee: P(a policy worse than the baseline is returned) <= delta for betting and the
concentration inequality, for a log of independent episodes that the baseline made. By Student's t
and BCa the level is approximate, and under rare events no level at all: docs/algorithms/hcpi.md has
measured figures of both kinds, and the certificate then claims the regret test instead. The bound
does not grow with the number of states, which makes it the only useful one on many logs.

Candidates are mixtures (1 - m) pi_greedy + m pi_b, with pi_greedy optimal in the model of the
training split among the actions that the baseline takes, or the results of any other algorithms.

Deviations from the paper: the baseline's value is not known, so the test is on the paired
difference (two bounds at delta / 2 for the concentration inequality); terms are doubly robust by
default, with the training split's model, and tails are put on the safe side (pessimism; terms about
the smallest training return); too few effective episodes refuse; where the range of rewards is
given, what hidden extremes could cost is subtracted from approximate bounds
(spibb.ope.rare_events); several candidates may be tested, at delta / k each. From the released
code: docs/algorithms/hcpi.md lists its mistakes, none of which is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm, Rng
from spibb.algorithms.hcpi_candidates import Candidates, learn
from spibb.algorithms.hcpi_decision import HeldOutTest, guarantee, run_tests
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.compiled.threads import n_threads
from spibb.errors import LARGEST, DataError, SettingsError, checked_number, checked_whole
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.ope.bounds import checked_level
from spibb.ope.confidence import BOUNDS, Bound
from spibb.ope.estimators import ESTIMATORS, weighted_estimators
from spibb.ope.estimators.base import WeightedEstimator
from spibb.ope.rare_events import hidden_loss
from spibb.ope.return_range import ReturnRange, checked_range
from spibb.ope.split import Split
from spibb.ope.trajectories import Trajectories
from spibb.plugins import load_plugins
from spibb.problem import Baseline, Problem, ProblemBatch, ProblemOptions
from spibb.settings import checked_entry, in_words

DEFAULT_MIXTURES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
# Problems that a thread works on together: so few that their kernels start no threads of their own.
_CHUNK = 10
# Resamples that say how uncertain a foreseen size is.
_RESAMPLED = 200


@dataclass(frozen=True, kw_only=True)
class HCPI(Algorithm):
    """Return a candidate only if a test on held-out episodes says that it is no worse.

    Args:
        delta: Allowed probability of returning a policy that is worse than the baseline, in (0, 1).
        estimator: Off-policy estimator of the test: dr, pdis, is, wis or cwpdis; None: pdis for
            betting (is where gamma = 1), is for concentration, dr for the others.
        bound: Exact: betting (pdis, is) or concentration (is, and pdis without negative rewards).
            Approximate: student-t (dr, pdis, is) or bca (all).
        candidates: Algorithms to run on the training split; None: mixtures of the greedy policy
            and the baseline.
        mixtures: Shares of the baseline in those mixtures.
        train_share: Share of the episodes that candidates are learnt from and chosen on.
        n_folds: Folds of the training split among which the choice is cross-fitted.
        n_tests: How many candidates are tested, those predicted to do best, at delta / n_tests
            each.
        pessimism: By how many standard errors candidates are underrated by the Q^ of doubly robust
            terms, so that their tail lies on the safe side; 0 is the plain estimator.
        min_ess: Effective held-out episodes below which nothing is accepted; not asked of the
            exact bounds, which need no such care.
        return_range: Smallest and largest possible return, from any step of an episode on, for the
            exact bounds by is; None: what the range of rewards implies.

    Example:
        One state, two actions: the second pays 1 more on average. Eighty episodes are enough.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 80, action=[0, 1] * 40, episode=list(range(80)),
        ...                       reward=[0.0, 1.0, 0.2, 1.2, 0.1, 1.1, 0.3, 1.3] * 10)
        >>> result = HCPI().improve(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> test = result.certificate.others[0]
        >>> result.policy.probabilities, test.bound > 0.2, test.is_exact
        (array([[0., 1.]]), True, False)
    """

    id: ClassVar[str] = "hcpi"

    delta: float = DEFAULT_DELTA
    estimator: str | None = None
    bound: str = "student-t"
    candidates: Any = None
    mixtures: Any = DEFAULT_MIXTURES
    train_share: float = 0.4
    n_folds: int = 2
    n_tests: int = 1
    pessimism: float = 1.0
    min_ess: float = 10.0
    return_range: Any = None

    def __post_init__(self) -> None:
        checked_level(self.delta)
        bound = checked_entry(self.bound, BOUNDS, "bound")
        if self.estimator is not None:
            if self.estimator not in ESTIMATORS:
                load_plugins()  # one of which may bring it
            able = weighted_estimators()
            bound.check(checked_entry(self.estimator, able, "estimator of HCPI"))
        if not 0.0 < self.train_share < 1.0:
            raise SettingsError(f"train_share is {self.train_share}", expected="a share in (0, 1)")
        for name, least in (("n_folds", 2), ("n_tests", 1)):
            checked_whole(getattr(self, name), name, least=least)
        bound.check_level(self.delta / self.n_tests)
        for name in ("pessimism", "min_ess"):
            checked_number(getattr(self, name), name, "a number >= 0", least=0, most=LARGEST)
        object.__setattr__(self, "mixtures", _checked_mixtures(self.mixtures))
        object.__setattr__(self, "candidates", _checked_candidates(self.candidates))
        if self.return_range is not None:
            object.__setattr__(self, "return_range", checked_range(self.return_range))

    @property
    def min_episodes(self) -> int:
        """Episodes that a log must have, so that each part of the split has enough of them."""
        return next(n for n in count(4) if self._shortage(n) is None)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Learn, choose and test, for each problem of the batch."""
        n = len(problems)
        policy = problems.baseline.copy()
        n_iterations = np.zeros(n, dtype=np.int64)
        status = np.full(n, Status.BASELINE_KEPT, dtype=object)
        findings: list[Any] = [None] * n
        # Each problem has its own generator: its result does not depend on the rest of the batch.
        rngs = [np.random.default_rng(0 if rng is None else rng.integers(2**63)) for _ in range(n)]

        def part(places: NDArray[np.int64]) -> None:
            listed = [problems[place] for place in places]
            candidates, tests = self._tests(listed, [rngs[place] for place in places])
            for k, (place, test) in enumerate(zip(places.tolist(), tests, strict=True)):
                result = candidates.result(k, test.choice.number)
                # Approximate bounds know nothing of extremes that the log happens not to hold.
                if not self.leads_with_claim:
                    loss = hidden_loss(
                        listed[k], problems.counted.models, place, result[0], self.delta
                    )
                    test = test.without(loss)
                findings[place] = test
                if findings[place].is_accepted:
                    policy[place], n_iterations[place], status[place] = result

        chunks = np.array_split(np.arange(n), -(-n // _CHUNK))
        # Threads of its own: those of the kernels must not wait for each other.
        with ThreadPoolExecutor(max_workers=min(n_threads(), len(chunks))) as pool:
            list((pool.map if len(chunks) > 1 else map)(part, chunks))
        v, q, ends = evaluate_batch(problems.models, policy)
        for place in np.flatnonzero(~ends).tolist():
            reason = "it does not end in the estimated model"
            findings[place] = replace(findings[place], refusal=reason)
        found = SearchResult(policy, v, q, n_iterations, status, findings)
        return problems.kept_where_endless(found, ends)

    def needed_episodes(
        self,
        log: Any,
        *,
        baseline: Baseline | None = None,
        gamma: float | None = None,
        power: float = 0.8,
        rng: Rng = None,
        **options: Unpack[ProblemOptions],
    ) -> tuple[float, float]:
        """Return between which numbers of episodes the test would pass, as this log looks.

        To pass with a probability, ``power``. Each fold of all episodes judges what the others
        teach; half of them choose a candidate, the others size it. The numbers are quartiles over
        resamples of the log: its gain is uncertain, and so they are far apart. Infinite where no
        candidate looks better than the baseline, NaN for bounds that are not foreseen. Candidates
        that change with more data are not foreseen either.
        """
        problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
        rng = np.random.default_rng(0) if rng is None else rng
        episodes = Trajectories.from_log(problem.log)
        split = Split.of(episodes, len(episodes), self.n_folds, rng)
        bound = self._bound_of(problem, split)
        candidates = learn(self, [problem], [split], rng)
        found = candidates.cross_fitted(0)
        bound = replace(bound, low=float(found.gain.min()))
        terms, best = bound.sized(found, power)
        if terms is None:
            return math.nan, math.nan
        share = 1.0 - self.train_share
        if not bound.is_exact:
            models = ModelBatch.stack([problem.model])
            loss = hidden_loss(problem, models, 0, candidates.result(0, best)[0], self.delta)
            # Counts grow with the held-out episodes: what they hide is the less.
            bound = replace(bound, hidden=loss * len(episodes) * share)
        drawn = rng.integers(0, len(terms), (_RESAMPLED, len(terms)))
        needed = np.sort([bound.needed(terms[rows], power) / share for rows in drawn])
        return float(needed[_RESAMPLED // 4]), float(needed[3 * _RESAMPLED // 4])

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim the bound of the held-out test."""
        return guarantee(case, finding)

    @property
    def needs_log(self) -> bool:
        """Yes: episodes are held out."""
        return True

    @property
    def leads_with_claim(self) -> bool:
        """Whether the test is exact: an approximate one guarantees nothing."""
        return BOUNDS[self.bound].is_exact

    @property
    def names(self) -> tuple[str, ...]:
        """How the candidates are called."""
        if self.candidates is None:
            return tuple(f"{100 * (1 - share):g} % greedy" for share in self.mixtures)
        return tuple(in_words(algorithm.to_config()) for algorithm in self.candidates)

    @property
    def n_tested(self) -> int:
        """How many candidates are tested: no more than there are."""
        return min(self.n_tests, len(self.candidates or self.mixtures))

    @property
    def least_ess(self) -> float:
        """Effective held-out episodes that a candidate needs."""
        return 0.0 if self.leads_with_claim else self.min_ess

    def estimator_at(self, gamma: float) -> WeightedEstimator:
        """Return the estimator of the test."""
        bound = BOUNDS[self.bound]
        # Without a discount, rewards alone bound no terms.
        default = "is" if bound.is_exact and gamma >= 1.0 else bound.default_estimator
        return weighted_estimators()[self.estimator or default]

    def _tests(
        self, problems: Sequence[Problem], rngs: Sequence[np.random.Generator]
    ) -> tuple[Candidates, list[HeldOutTest]]:
        splits = [self._split(*part) for part in zip(problems, rngs, strict=True)]
        bounds = [self._bound_of(*part) for part in zip(problems, splits, strict=True)]
        candidates = learn(self, problems, splits, rngs[0])
        return candidates, run_tests(self, candidates, bounds, rngs)

    def _split(self, problem: Problem, rng: np.random.Generator) -> Split:
        episodes = Trajectories.from_log(problem.log)
        if (shortage := self._shortage(len(episodes))) is not None:
            raise shortage
        episodes.check_propensities(problem.baseline)
        n_train = round(self.train_share * len(episodes))
        return Split.of(episodes, n_train, self.n_folds, rng)

    def _shortage(self, n: int) -> DataError | None:
        n_train = round(self.train_share * n)
        needed = BOUNDS[self.bound].fewest_episodes
        for part, size, least in (("train", n_train, 2), ("test", n - n_train, needed)):
            if size < least:
                return DataError(
                    f"{n} episodes leave {size} to {part} on",
                    expected=f"at least {least} episodes to {part} on",
                    hint="use a longer log, another train_share, or an algorithm that needs no "
                    "held-out episodes",
                )
        return None

    def _bound_of(self, problem: Problem, split: Split) -> Bound:
        kind, estimator, known = BOUNDS[self.bound], self.estimator_at(problem.gamma), None
        kind.check(estimator, problem.values)
        if kind.is_exact:
            returns = split.episodes.returns(problem.gamma)
            known = ReturnRange.of(problem.values, self.return_range, returns)
        return kind(estimator, self.delta / self.n_tested, known)


def _checked_mixtures(mixtures: Any) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in np.ravel(mixtures))
    except (TypeError, ValueError):
        shares = ()
    if not shares or not all(0.0 <= share < 1.0 for share in shares):
        raise SettingsError(
            f"mixtures is {mixtures!r}", expected="shares of the baseline in [0, 1), at least one"
        )
    return shares


def _checked_candidates(candidates: Any) -> tuple[Algorithm, ...] | None:
    if candidates is None:
        return None
    listed = (candidates,) if isinstance(candidates, Algorithm) else tuple(candidates)
    odd = [part for part in listed if not isinstance(part, Algorithm) or isinstance(part, HCPI)]
    if odd or not listed:
        raise SettingsError(
            f"candidates holds {odd[0]!r}" if odd else "candidates is empty",
            expected="algorithms other than HCPI, as [ApproxSoftSPIBB(epsilon=0.5), BasicRL()]",
        )
    return listed
