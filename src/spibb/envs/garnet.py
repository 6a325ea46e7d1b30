"""Random MDPs ("garnets") with a goal, and baselines of a given strength: the paper's benchmark.

Generator (Laroche et al. 2019, appendix B.1; the paper's section 4.1):

* every pair has `n_successors` distinct successors; their probabilities are the gaps between sorted
  uniform numbers;
* the episode starts in state 0; entering the goal pays 1 and ends it. The goal is the state that
  makes V*(0) smallest among those with V*(0) > gamma^50: the hardest that can still be reached;
* a baseline of strength eta has performance eta rho* + (1 - eta) rho_uniform: a softmax of Q* is
  softened until halfway there, (1 + eta) / 2, then the best action of random states loses a tenth
  of its probability, again and again, until eta (or until the best actions have none left, which
  small processes with nearly equal actions come to);
* the Soft-SPIBB benchmark adds a second goal, drawn uniformly, after the baseline was made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.compiled.jit import jit
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation, eliminate, evaluate, fill_system
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve, solve_batch
from spibb.mdp.policy import TabularPolicy

_START = 0
# A goal must be reachable in about this many steps to count.
_HORIZON = 50
_FIRST_INVERSE_TEMPERATURE = 2e6
_SOFTENING = 0.9
_PERTURBATION = 0.9
# Without its best actions a policy may still be too good, where others are nearly as good as they:
# it is looked at every so many perturbations of a state, and left as it is when these are gone.
_ROUNDS, _NOTHING = 20, 1e-9
# States are drawn in advance; where they do not suffice, all is done again with more of them.
_FIRST_DRAWS, _MORE_DRAWS = 1_000, 8


@dataclass(frozen=True, eq=False)
class Garnet:
    """A random process with one or two goals.

    Attributes:
        transition: P(x' | x, a), shape (S, A, S).
        gamma: The discount by which goal and baselines are chosen.
        goals: States that end the episode, the first goal first.
        goal_rewards: What entering each of them pays.
    """

    transition: NDArray[np.float64]
    gamma: float
    goals: tuple[int, ...]
    goal_rewards: tuple[float, ...]

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        *,
        n_states: int = 50,
        n_actions: int = 4,
        n_successors: int = 4,
        gamma: float = 0.95,
    ) -> Garnet:
        """Draw a process and choose its goal."""
        if not (n_states >= 2 and n_actions >= 1 and 1 <= n_successors <= n_states):
            raise SettingsError(
                f"a garnet of {n_states} states, {n_actions} actions, {n_successors} successors",
                expected="at least 2 states, 1 action, and 1 to n_states successors",
            )
        if not 0 < gamma < 1:
            raise SettingsError(f"gamma is {gamma}", expected="a discount in (0, 1)")
        transition = random_transition(rng, n_states, n_actions, n_successors)
        goal = hardest_goal(transition, gamma)
        return cls(transition, gamma, (goal,), (1.0,))

    def with_second_goal(self, rng: np.random.Generator, reward: float = 1.0) -> Garnet:
        """Add a goal, drawn uniformly among the other states but the start.

        Args:
            rng: Source of randomness.
            reward: What entering it pays; -1 makes the "bad second goal" of Scholl et al.
        """
        others = np.setdiff1d(np.arange(1, len(self.transition)), self.goals)
        if len(others) == 0:
            raise SettingsError("no state is left for a second goal", expected="at least 3 states")
        chosen = int(rng.choice(others))
        return replace(
            self, goals=(*self.goals, chosen), goal_rewards=(*self.goal_rewards, float(reward))
        )

    def to_mdp(self, gamma: float | None = None) -> TabularMDP:
        """Return the exact process."""
        n_states = len(self.transition)
        terminal = np.isin(np.arange(n_states), self.goals)
        entry = np.zeros(n_states)
        entry[list(self.goals)] = self.goal_rewards
        initial = np.eye(n_states)[_START]
        discount = self.gamma if gamma is None else gamma
        return TabularMDP(self.transition, None, discount, initial, terminal, entry_reward=entry)

    @cached_property
    def mdp(self) -> TabularMDP:
        """The exact process with the discount by which goal and baselines are chosen."""
        return self.to_mdp()

    @cached_property
    def optimum(self) -> Evaluation:
        """An optimal policy and its values."""
        return solve(self.mdp)

    @cached_property
    def uniform(self) -> Evaluation:
        """The uniform policy and its values."""
        shape = self.mdp.n_states, self.mdp.n_actions
        return evaluate(self.mdp, TabularPolicy.uniform(*shape))

    @one_blas_thread()
    def baseline(self, eta: float, rng: np.random.Generator) -> TabularPolicy:
        """Make a baseline of performance eta rho* + (1 - eta) rho_uniform, or just below.

        Where even without its best actions it stays above that, it is left without them.

        Args:
            eta: Strength, in [0, 1].
            rng: Source of randomness.
        """
        if not 0 <= eta <= 1:
            raise SettingsError(f"eta is {eta}", expected="a strength in [0, 1]")

        softened = self._softened(self._target((1 + eta) / 2))
        live = np.flatnonzero(~self.mdp.terminal)
        best = self.optimum.q.argmax(axis=1)
        model, initial = self._kernel_model, self.mdp.initial.copy()
        before, n_drawn = rng.bit_generator.state, _FIRST_DRAWS
        # Compiled functions take numbers, never the generator: see spibb.compiled.jit.
        while True:
            pi, drawn = softened.copy(), live[rng.integers(0, len(live), n_drawn)]
            rng.bit_generator.state = before
            n_used = _perturb(*(*model, initial, best, live, self._target(eta), pi, drawn))
            if n_used >= 0:
                rng.integers(0, len(live), n_used)  # the generator is left as if it had drawn these
                return TabularPolicy(pi)
            n_drawn *= _MORE_DRAWS

    def _target(self, strength: float) -> float:
        return strength * self.optimum.performance + (1 - strength) * self.uniform.performance

    def _softened(self, target: float) -> NDArray[np.float64]:
        """Return the first softmax of Q*, of falling inverse temperature, at or below a target."""
        pi = np.empty(self.optimum.q.shape)
        found = np.flatnonzero(self._softening <= target)
        # A temperature of no effect ends the search: the uniform policy is as soft as it gets.
        step = int(found[0]) if len(found) else len(self._softening) - 1
        _write_softmax(self.optimum.q, _FIRST_INVERSE_TEMPERATURE * _SOFTENING**step, pi)
        return pi

    @cached_property
    def _softening(self) -> NDArray[np.float64]:
        """Performance at each temperature, until none softer can be asked for."""
        model, initial = self._kernel_model, self.mdp.initial.copy()
        return np.asarray(_soften(*(*model, initial, self.optimum.q, self._target(0.5))))

    @cached_property
    def _kernel_model(self) -> tuple[Any, ...]:
        batch = ModelBatch.stack([self.mdp])
        return batch.indptr, batch.indices, batch.data, batch.reward[0], batch.gamma


def random_transition(
    rng: np.random.Generator, n_states: int, n_actions: int, n_successors: int
) -> NDArray[np.float64]:
    """Draw P: distinct successors, probabilities the gaps between sorted uniforms."""
    shape = (n_states, n_actions)
    successors = rng.random((*shape, n_states)).argsort(axis=2)[:, :, :n_successors]
    cuts = np.sort(rng.random((*shape, n_successors - 1)), axis=2)
    gaps = np.diff(cuts, axis=2, prepend=0.0, append=1.0)
    transition = np.zeros((*shape, n_states))
    np.put_along_axis(transition, successors, gaps, axis=2)
    return transition


def hardest_goal(transition: NDArray[np.float64], gamma: float) -> int:
    """Return the goal with the smallest V*(0) above gamma^50, or the easiest if there is none."""
    n_states = len(transition)
    candidates = np.arange(1, n_states)
    batch = _goal_batch(transition, gamma, candidates)
    values = solve_batch(batch).v[:, _START]
    reachable = values > gamma**_HORIZON
    if not reachable.any():
        return int(candidates[values.argmax()])
    return int(candidates[np.where(reachable, values, np.inf).argmin()])


def _goal_batch(
    transition: NDArray[np.float64], gamma: float, goals: NDArray[np.int64]
) -> ModelBatch:
    """Return the same process with each of the goals: entering it pays 1 and ends."""
    n_states, n_actions, _ = transition.shape
    rows = sp.csr_array(transition.reshape(-1, n_states))
    shape = (len(goals), n_states, n_actions)
    # What leads to a goal ends there, and nothing leads on from it.
    state = np.repeat(np.arange(n_states * n_actions) // n_actions, np.diff(rows.indptr))
    live = (rows.indices != goals[:, None]) & (state != goals[:, None])
    reward = np.moveaxis(transition[:, :, goals], 2, 0).copy()
    reward[np.arange(len(goals)), goals] = 0.0
    starts = rows.indptr[:-1].astype(np.int64) + rows.nnz * np.arange(len(goals))[:, None]
    return ModelBatch(
        indptr=np.append(starts.ravel(), rows.nnz * len(goals)),
        indices=np.tile(rows.indices.astype(np.int32), len(goals)),
        data=(rows.data * live).ravel(),
        reward=reward,
        ending=np.where(np.arange(n_states)[:, None] == goals[:, None, None], 1.0, reward),
        initial=np.broadcast_to(np.eye(n_states)[_START], shape[:2]).copy(),
        gamma=gamma,
    )


@jit
def _performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v):  # type: ignore[no-untyped-def]
    fill_system(indptr, indices, data, reward, pi, gamma, 0, matrix, v, 0, 1)
    eliminate(matrix, v, 0, 1)
    total = 0.0
    for x in range(len(v)):
        total += initial[x] * v[x]
    return total


@jit
def _write_softmax(q, inverse, pi):  # type: ignore[no-untyped-def]
    n_states, n_actions = q.shape
    for x in range(n_states):
        largest = q[x, 0]
        for a in range(1, n_actions):
            largest = max(largest, q[x, a])
        total = 0.0
        for a in range(n_actions):
            pi[x, a] = np.exp(inverse * (q[x, a] - largest))
            total += pi[x, a]
        for a in range(n_actions):
            pi[x, a] /= total


@jit
def _soften(indptr, indices, data, reward, gamma, initial, q, lowest):  # type: ignore[no-untyped-def]
    """Return the performances of softmaxes of q, ever softer, until one is at or below `lowest`."""
    n_states = len(q)
    matrix, v, pi = np.empty((n_states, n_states)), np.empty(n_states), np.empty(q.shape)
    found = []
    inverse = _FIRST_INVERSE_TEMPERATURE
    while inverse >= 1e-9:
        _write_softmax(q, inverse, pi)
        found.append(_performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v))
        if found[-1] <= lowest:
            break
        inverse *= _SOFTENING
    return np.array(found)


@jit
def _perturb(indptr, indices, data, reward, gamma, initial, best, states, target, pi, drawn):  # type: ignore[no-untyped-def]
    """Take a tenth of the best action's probability in the states drawn until the target is met.

    Return how many of them were needed; -1: more than there are.

    A step changes one row of A = I - gamma P_pi by d, and one reward by r. With u the column of
    A^-1 at that row, V grows by u (r - d V) / (1 + d u), and A^-1 follows by Sherman and Morrison:
    the cost of a step is one pass over the inverse. A fresh evaluation has the last word.
    """
    n_states = len(pi)
    matrix, v = np.empty((n_states, n_states)), np.empty(n_states)
    d, u, w = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    place = 0
    while _performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v) > target:
        fill_system(indptr, indices, data, reward, pi, gamma, 0, matrix, w, 0, 1)
        inverse = np.linalg.inv(matrix)
        found = target + 1.0
        n_steps = 0
        while found > target:
            n_steps += 1
            if n_steps % (_ROUNDS * len(states)) == 0 and _is_spent(best, states, pi):
                return place
            if place == len(drawn):
                return -1
            x = drawn[place]
            place += 1
            for y in range(n_states):
                d[y] = 0.0
                w[y] = 0.0
                u[y] = inverse[y, x]
            gain = _take_a_tenth(indptr, indices, data, reward, gamma, x, best[x], pi, d)
            before, slope = 0.0, 1.0
            for y in range(n_states):
                if d[y] != 0.0:
                    before += d[y] * v[y]
                    slope += d[y] * u[y]
                    for z in range(n_states):
                        w[z] += d[y] * inverse[y, z]
            factor = (gain - before) / slope
            found = 0.0
            for y in range(n_states):
                v[y] += factor * u[y]
                found += initial[y] * v[y]
                share = u[y] / slope
                for z in range(n_states):
                    inverse[y, z] -= share * w[z]
    return place


@jit
def _is_spent(best, states, pi):  # type: ignore[no-untyped-def]
    """Tell whether the best actions have nothing left to lose."""
    most = 0.0
    for x in states:
        most = max(most, pi[x, best[x]])
    return most <= _NOTHING


@jit
def _take_a_tenth(indptr, indices, data, reward, gamma, x, best, pi, d):  # type: ignore[no-untyped-def]
    """Perturb the row of x; write the change of its row of I - gamma P_pi, return its reward's."""
    n_actions = pi.shape[1]
    total = 1.0 - (1.0 - _PERTURBATION) * pi[x, best]
    gain = 0.0
    for a in range(n_actions):
        new = pi[x, a] * (_PERTURBATION if a == best else 1.0) / total
        change = new - pi[x, a]
        pi[x, a] = new
        gain += change * reward[x, a]
        for k in range(indptr[x * n_actions + a], indptr[x * n_actions + a + 1]):
            d[indices[k]] -= gamma * change * data[k]
    return gain
