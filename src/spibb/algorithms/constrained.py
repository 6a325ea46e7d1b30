"""Policy iteration under limits: bounded rows, and which states may change at all.

Bounds on actions are kept by the row step (spibb.operators.constrained), from the baseline without
what is forbidden. That first move costs budget as any other: what it spends, by the errors of the
step, is taken off the budget of its state, so that the row stays (pi_b, e, epsilon)-constrained
wherever the budget pays for the move; the certificate measures what was spent. ``min_gain`` and
``max_states`` choose states, by locking the others and iterating again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import spent_budget
from spibb.compiled.threads import over_chunks
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import Improve, SearchResult, policy_iteration
from spibb.mdp.visits import discounted_visits
from spibb.operators.constrained import improve_limited
from spibb.operators.cost_constrained import costly_row
from spibb.operators.rows import Operator
from spibb.problem.limits import Bounds

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Rows of linear programs are as good as this share of the values.
_SOLVED = 1e-9
_LOWER = (Operator.LOWER_EXACT, Operator.LOWER_APPROX)


@dataclass(frozen=True, eq=False)
class LimitedIteration:
    """Policy iteration by one bounded step, over a batch.

    Attributes:
        models: The models, on the CPU.
        first: Policies to start from, within their bounds, shape (B, S, A).
        start: The baselines without what is forbidden, which rows stay near, shape (B, S, A).
        baseline: The baselines, shape (B, S, A).
        bounds: Limits of each problem.
        operator: The step.
        errors: Its errors, shape (B, S, A).
        epsilon: Its budget.
        side: The baseline's Q, where the operator wants it, shape (B, S, A).
        max_iterations: Steps at most.
    """

    models: ModelBatch
    first: Array
    start: Array
    baseline: Array
    bounds: Sequence[Bounds]
    operator: Operator
    errors: Array
    epsilon: float
    side: Array
    max_iterations: int | None = None

    def search(self) -> SearchResult:
        """Iterate, and lock states until the limits on states are kept."""
        locked = np.zeros(self.start.shape[:2], dtype=np.bool_)
        found = self._iterate(locked)
        too_many = self._n_changed(found.policy) > self._most_changed
        if too_many.any():
            locked = self._chosen(too_many)
            found = self._iterate(locked)
        while (poor := self._worth_too_little(found)).any():
            locked |= poor
            found = self._iterate(locked)
        return found

    def _iterate(self, locked: Flags) -> SearchResult:
        first = np.where(locked[:, :, None], self.start, self.first)
        return policy_iteration(
            self.models, first, self._improver(locked), max_iterations=self.max_iterations
        )

    def _improver(self, locked: Flags) -> Improve:
        upper = np.stack([bounds.upper for bounds in self.bounds])
        upper = np.where(locked[:, :, None], self.start, upper)
        parts = (self.start, self.errors, self._budgets, self.side, upper)
        given = [np.require(part, np.float64, ["C", "W"]) for part in parts]

        def improve(problems: NDArray[np.int64], q: Array, policy: Array) -> Flags:
            if any(bounds.costs is not None for bounds in self.bounds):
                tried = policy.copy()
                step(problems, q, tried)
                return self._within_costs(problems, q, policy, tried, given)
            return step(problems, q, policy)

        def step(problems: NDArray[np.int64], q: Array, policy: Array) -> Flags:
            changed = np.empty(len(problems), dtype=np.bool_)
            over_chunks(
                lambda places: improve_limited(
                    places, int(self.operator), problems, q, *given, policy, changed
                ),
                np.arange(len(problems)),
            )
            return changed

        return improve

    def _within_costs(
        self, problems: NDArray[np.int64], q: Array, policy: Array, tried: Array, given: list[Array]
    ) -> Flags:
        """Take the rows of a step, or where those make a cost rise, others that do not."""
        start, errors, budgets, side, upper = given
        changed = np.zeros(len(problems), dtype=np.bool_)
        for place, k in enumerate(problems.tolist()):
            costs, risen = self.bounds[k].costs, self.bounds[k].risen(tried[k])
            assert costs is not None, "the problems of a batch are alike"
            for x in np.flatnonzero(risen.any(axis=0)):
                row = costly_row(
                    self.operator, q[k, x], start[k, x], errors[k, x], budgets[k, x], side[k, x],
                    upper[k, x], costs[:, x], tried[k, x],
                )  # fmt: skip
                gain = float((row - policy[k, x]) @ q[k, x])
                is_better = gain > _SOLVED * float(np.abs(q[k, x]).max())
                tried[k, x] = row if is_better else policy[k, x]
            changed[place] = (tried[k] != policy[k]).any()
            policy[k] = tried[k]
        return changed

    @property
    def _budgets(self) -> Array:
        """What is left of the budget after the move to ``start``, shape (B, S)."""
        budget = np.full(self.start.shape[:2], float(self.epsilon))
        if not self.operator.needs.budget or np.isinf(self.epsilon):
            return budget
        for place, (start, baseline) in enumerate(zip(self.start, self.baseline, strict=True)):
            is_lower = self.operator in _LOWER
            forced = (start != baseline).any(axis=1)
            spent = spent_budget(start - baseline, self.errors[place], is_one_sided=is_lower)
            budget[place][forced] = np.maximum(0.0, self.epsilon - spent[forced])
        return budget

    @property
    def _most_changed(self) -> NDArray[np.int64]:
        n_states = self.start.shape[1]
        given = [bounds.max_states for bounds in self.bounds]
        return np.array([n_states if most is None else most for most in given])

    def _n_changed(self, policy: Array) -> NDArray[np.int64]:
        return np.asarray(self._changed(policy).sum(axis=1))

    def _changed(self, policy: Array) -> Flags:
        """Return where a policy differs from the baseline, shape (B, S)."""
        acts = np.stack([bounds.acts for bounds in self.bounds])
        return np.asarray((policy != self.baseline).any(axis=2) & acts)

    def _worth_too_little(self, found: SearchResult) -> Flags:
        """Return changed states whose change is worth less than it must be, shape (B, S)."""
        least = np.array([bounds.min_gain or 0.0 for bounds in self.bounds])
        gain = ((found.policy - self.start) * found.q).sum(axis=2)
        changed = (found.policy != self.start).any(axis=2)
        return np.asarray(changed & (gain < least[:, None]) & (least[:, None] > 0.0))

    def _chosen(self, asked: Flags) -> Flags:
        """Choose states one by one by what a change there is worth; return the others, locked.

        A change of one row is worth its gain in q times the visits of its state: the
        performance-difference lemma, to first order. Which rows that are chosen later would have
        made another worth more is not looked at.
        """
        forced = self._changed(self.start)
        locked = np.where(asked[:, None], ~forced, False)
        free = self._improver(np.zeros_like(locked))
        n_left = np.where(asked, self._most_changed - forced.sum(axis=1), 0)
        everything = np.arange(len(self.start), dtype=np.int64)
        while (n_left > 0).any():
            found = self._iterate(locked)
            ends = evaluate_batch(self.models, found.policy)[2]
            tried = found.policy.copy()
            free(everything, found.q, tried)
            gain = ((tried - found.policy) * found.q).sum(axis=2)
            for place in np.flatnonzero(n_left > 0).tolist():
                if not ends[place]:
                    n_left[place] = 0
                    continue
                visits = discounted_visits(self.models, place, found.policy[place])
                worth = np.where(locked[place], gain[place] * visits, -np.inf)
                least = self.bounds[place].min_gain
                if least is not None:
                    worth[gain[place] < least] = -np.inf
                best = int(np.argmax(worth))
                if not worth[best] > 0.0:
                    n_left[place] = 0
                    continue
                locked[place, best] = False
                n_left[place] -= 1
        return np.asarray(locked)


def checked_operator(operator: object) -> Operator:
    """Return the operator of a step that can be bounded, or refuse a row function."""
    if isinstance(operator, Operator):
        return operator
    raise SettingsError(
        "a row function of one's own does not keep to limits",
        expected="a step that names one of spibb.operators.Operator",
        hint="leave the limits out",
    )
