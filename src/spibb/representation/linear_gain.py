r"""The gain of a policy by a Q-function that is linear in raw columns within labels.

    Q(s, a, x) = alpha(s, a) + beta(a) (x - mean of x in s)

Cells cannot say what happens beyond the values that the log holds: a cell at the edge is one state,
however far a policy drives the process into it. A slope extrapolates. Q is the fixed point of
least-squares temporal differences (Bradtke and Barto 1996, for Q: Lagoudakis and Parr 2003),

    A theta = b,   A = mean of phi_i (phi_i - gamma phi_pi(next_i))',   b = mean of phi_i r_i,

with a ridge on the slopes. The intercept of an unobserved pair is the mean of the intercepts of its
label, weighted by rows. A missing value is at the mean of its label.

The equations of the intercepts are solved by hand, which leaves one unknown for each label, its
value v(s) = sum of pi(a | s) alpha(s, a), and the slopes:

    alpha(s, a) = mean over the rows of (s, a) of r + gamma (v(s') + slopes in s') - slopes in s.

The standard error is the first-order one. The influence of step i is its temporal-difference error
r_i + gamma phi_pi(next_i)' theta - phi_i' theta times the derivative of the value by the equations
of its pair and of the slopes of its action.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.representation.refined_gain import LARGEST_DISCOUNT, RefinedGain, behaviour_value
from spibb.representation.steps import Array, Codes, Steps

# Ridge on slopes, for columns of unit variance and the mean over steps.
_RIDGE = 1e-3
# Numbers in a table of rows that is made at a time.
_CHUNK = 4_000_000


def linear_gain(steps: Steps, values: Array, table: Array, gamma: float) -> RefinedGain:
    """Return the gain of a policy by a Q-function that is linear within labels; see the module.

    Args:
        steps: The steps of the log.
        values: Raw columns of each row of the log, shape (rows, K).
        table: The policy, shape (S, A).
        gamma: The discount.
    """
    gamma = min(gamma, LARGEST_DISCOUNT)
    x = _within_labels(values, steps.label_of, len(table))
    value, influence = _Linear(steps, x, table, gamma).value()
    behaved = behaviour_value(steps, table.shape, gamma)
    gain, influence = value - behaved.value, influence - behaved.influence
    return RefinedGain(gain, 0.0, influence, 0.0, len(np.unique(steps.state)))


def _within_labels(values: Array, label: Codes, n_states: int) -> Array:
    """Return columns of unit variance, centred within labels; a missing value is at the mean."""
    found = np.zeros(values.shape)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        if not known.any():
            continue
        # Squares of large values are no numbers.
        largest = float(np.abs(column[known]).max())
        here, own = column[known] / (largest or 1.0), label[known]
        here = here - here.mean()
        scale = float(here.std())
        if scale <= 1e-12:
            continue
        n = np.maximum(np.bincount(own, minlength=n_states), 1)
        found[known, k] = (here - (np.bincount(own, here, n_states) / n)[own]) / scale
    return found


class _Linear:
    """The linear system of one log and policy."""

    def __init__(self, steps: Steps, x: Array, table: Array, gamma: float) -> None:
        self.steps, self.x, self.table, self.gamma = steps, x, table, gamma
        self.n_states, self.n_actions = table.shape
        self.n_columns = x.shape[1]
        self.pair = steps.state * self.n_actions + steps.action
        self.n_pair = np.bincount(self.pair, minlength=table.size).reshape(table.shape)
        self.n_label = np.maximum(self.n_pair.sum(axis=1), 1)
        # What the policy does with actions without data, by label.
        self.share = np.where(self.n_pair == 0, table, 0.0).sum(axis=1)
        self.after = np.full(len(steps.row), self.n_states)
        self.is_followed = steps.following >= 0
        self.after[self.is_followed] = steps.label_of[steps.following[self.is_followed]]

    def value(self) -> tuple[float, Array]:
        """Return the value of the policy, and the influence of each block on it."""
        steps, n, n_states = self.steps, len(self.steps.row), self.n_states
        at_start = self._policy_slopes(steps.first)
        weight = np.append(
            np.bincount(steps.label_of[steps.first], minlength=n_states), at_start.sum(axis=0)
        ) / len(steps.first)
        found, dual = self._solved(weight)
        v, slopes = found[:n_states], found[n_states:]
        of_label, of_slope = dual[:n_states], dual[n_states:]
        alpha = self._reward + self._moves @ v + self._slopes @ slopes
        of_pair = (self._act.T @ of_label - self._mixed.T @ of_slope) / np.maximum(
            self.n_pair.ravel(), 1
        )
        here = self.x[steps.row]
        v_start = v[steps.label_of[steps.first]] + at_start @ slopes
        value = float(v_start.mean())
        residual = self._residual(alpha, v, slopes.reshape(self.n_actions, -1), here)
        own_slope = of_slope.reshape(self.n_actions, -1)[steps.action]
        of_step = residual * (of_pair[self.pair] + (own_slope * here).sum(axis=1) / n)
        if self.share.any():
            mean = (self.n_pair * alpha.reshape(self.table.shape)).sum(axis=1) / self.n_label
            of_step += (of_label * self.share / self.n_label)[steps.state] * (
                alpha[self.pair] - mean[steps.state]
            )
        influence = steps.by_block(of_step)
        influence = influence + steps.by_first_block((v_start - value) / len(steps.first))
        return value, influence

    def _residual(self, alpha: Array, v: Array, slopes: Array, here: Array) -> Array:
        steps, rows = self.steps, self.steps.following[self.is_followed]
        ahead = np.zeros(len(steps.row))
        label = steps.label_of[rows]
        ahead[self.is_followed] = v[label] + ((self.table @ slopes)[label] * self.x[rows]).sum(1)
        own = alpha[self.pair] + (slopes[steps.action] * here).sum(axis=1)
        return np.asarray(steps.reward + self.gamma * ahead - own)

    def _solved(self, weight: Array) -> tuple[Array, Array]:
        """Return labels' values and slopes, and the solution of the transposed system."""
        steps, gamma, size = self.steps, self.gamma, self.table.size
        n, n_actions, n_columns = len(steps.row), self.n_actions, self.n_columns
        n_slopes, n_pair = n_actions * n_columns, np.maximum(self.n_pair.ravel(), 1)
        self._reward = np.bincount(self.pair, steps.reward, size) / n_pair
        self._moves = self._counted() * gamma
        self._act = self._acting()
        own = np.stack([np.bincount(self.pair, x, size) for x in self.x[steps.row].T], axis=1)
        # Slopes of an action times rows of its pairs.
        self._mixed = np.zeros((n_slopes, size))
        ahead, curved, paid, mixed_after = self._slope_sums()
        self._slopes = gamma * ahead / n_pair[:, None]
        for a in range(n_actions):
            pairs, slots = np.arange(a, size, n_actions), slice(a * n_columns, (a + 1) * n_columns)
            self._mixed[slots, pairs] = own[pairs].T / n
            self._slopes[pairs, slots] -= own[pairs] / n_pair[pairs, None]
        curved = curved / n + _RIDGE * np.eye(n_slopes)
        top = np.hstack(
            [np.eye(self.n_states) - (self._act @ self._moves).toarray(), -self._act @ self._slopes]
        )
        left = self._mixed @ self._moves - gamma * mixed_after / n
        bottom = np.hstack([left, curved + self._mixed @ self._slopes])
        system = np.vstack([top, bottom])
        target = np.append(self._act @ self._reward, paid / n - self._mixed @ self._reward)
        return _both(system, target, weight)

    def _counted(self) -> sp.csr_matrix:
        """Return the share of a pair's rows that are followed by each label, shape (S A, S)."""
        pair, after = self.pair[self.is_followed], self.after[self.is_followed]
        weight = 1.0 / self.n_pair.ravel()[pair]
        return sp.csr_matrix((weight, (pair, after)), (self.table.size, self.n_states))

    def _acting(self) -> sp.csr_matrix:
        """Return what the policy does, in pairs with data, shape (S, S A)."""
        others = self.share[:, None] * self.n_pair / self.n_label[:, None]
        acted = np.where(self.n_pair > 0, self.table + others, 0.0)
        label = np.repeat(np.arange(self.n_states), self.n_actions)
        shape = (self.n_states, self.table.size)
        return sp.csr_matrix((acted.ravel(), (label, np.arange(self.table.size))), shape)

    def _policy_slopes(self, rows: Codes) -> Array:
        """Return pi(a | s) x of rows of the log, shape (rows, A K)."""
        found = self.table[self.steps.label_of[rows]][:, :, None] * self.x[rows][:, None, :]
        return np.asarray(found.reshape(len(rows), self.n_actions * self.n_columns))

    def _slope_sums(self) -> tuple[Array, Array, Array, Array]:
        """Return four sums over steps.

        The first is that of the next step's slopes, by pair. The others are by action and column
        of x: of x times the step's own slopes less gamma the next ones, of x r, and of x by next
        label.
        """
        steps, size, width = self.steps, self.table.size, self.n_actions * self.n_columns
        ahead, curved = np.zeros((size, width)), np.zeros((width, width))
        paid, after = np.zeros(width), np.zeros((width, self.n_states))
        chunk = max(1, _CHUNK // max(1, width))
        for first in range(0, len(steps.row), chunk):
            part = slice(first, first + chunk)
            x, action = self.x[steps.row[part]], steps.action[part]
            is_followed = self.is_followed[part]
            following = np.zeros((len(x), width))
            following[is_followed] = self._policy_slopes(steps.following[part][is_followed])
            ahead += _summed(self.pair[part], following, size)
            for a in np.unique(action):
                here, slots = action == a, slice(a * self.n_columns, (a + 1) * self.n_columns)
                curved[slots] -= self.gamma * (x[here].T @ following[here])
                curved[slots, slots] += x[here].T @ x[here]
                paid[slots] += x[here].T @ steps.reward[part][here]
                goes_on = here & is_followed
                after[slots] += _summed(self.after[part][goes_on], x[goes_on], self.n_states).T
        return ahead, curved, paid, after


def _summed(code: Codes, values: Array, size: int) -> Array:
    """Return sums of rows of a table by code, shape (size, K)."""
    n = len(code)
    chooser = sp.csr_matrix((np.ones(n), (code, np.arange(n))), (size, n))
    return np.asarray(chooser @ values)


@one_blas_thread()
def _both(system: Array, target: Array, weight: Array) -> tuple[NDArray[np.float64], Array]:
    """Return the solution, and that of the transposed system."""
    try:
        found, dual = np.linalg.solve(system, target), np.linalg.solve(system.T, weight)
    except np.linalg.LinAlgError:  # the fixed point is not unique: the smallest one
        inverse = scipy.linalg.pinv(system)
        found, dual = inverse @ target, inverse.T @ weight
    return np.asarray(found), np.asarray(dual)
