"""Random MDPs ("garnets") with a goal, and baselines of a given strength: the paper's benchmark.

Generator (Laroche et al. 2019, appendix B.1; the paper's section 4.1):

* every pair has `n_successors` distinct successors; their probabilities are the gaps between sorted
  uniform numbers;
* the episode starts in state 0; entering the goal pays 1 and ends it. The goal is the state that
  makes V*(0) smallest among those with V*(0) > gamma^50: the hardest that can still be reached;
* a baseline of strength eta has performance eta rho* + (1 - eta) rho_uniform: a softmax of Q* is
  softened until halfway there, (1 + eta) / 2, then the best action of random states loses a tenth
  of its probability, again and again, until eta;
* the Soft-SPIBB benchmark adds a second goal, drawn uniformly, after the baseline was made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.iterating import Step, iterate
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation, eliminate, evaluate, fill_system, jit
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.operators.rows import Operator

_START = 0
# A goal must be reachable in about this many steps to count.
_HORIZON = 50
_FIRST_INVERSE_TEMPERATURE = 2e6
_SOFTENING = 0.9
_PERTURBATION = 0.9


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
    def optimum(self) -> Evaluation:
        """An optimal policy and its values."""
        return solve(self.to_mdp())

    @cached_property
    def uniform(self) -> Evaluation:
        """The uniform policy and its values."""
        mdp = self.to_mdp()
        return evaluate(mdp, TabularPolicy.uniform(mdp.n_states, mdp.n_actions))

    def baseline(self, eta: float, rng: np.random.Generator) -> TabularPolicy:
        """Make a baseline of performance eta rho* + (1 - eta) rho_uniform, or just below.

        Args:
            eta: Strength, in [0, 1].
            rng: Source of randomness.
        """
        if not 0 <= eta <= 1:
            raise SettingsError(f"eta is {eta}", expected="a strength in [0, 1]")

        def target(strength: float) -> float:
            return strength * self.optimum.performance + (1 - strength) * self.uniform.performance

        q = self.optimum.q
        return TabularPolicy(
            _make_baseline(self.to_mdp(), q, target((1 + eta) / 2), target(eta), rng)
        )


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
    n_states, n_actions, _ = transition.shape
    candidates = np.arange(1, n_states)
    models = []
    for goal in candidates:
        terminal = np.arange(n_states) == goal
        models.append(TabularMDP(transition, transition[:, :, goal], gamma, terminal=terminal))
    batch = ModelBatch.stack(models)
    start = np.full(batch.shape, 1.0 / n_actions)
    step = Step(Operator.GREEDY, np.zeros(batch.shape), np.inf)
    values = iterate(batch, start, step).v[:, _START]
    reachable = values > gamma**_HORIZON
    if not reachable.any():
        return int(candidates[values.argmax()])
    return int(candidates[np.where(reachable, values, np.inf).argmin()])


def _make_baseline(
    mdp: TabularMDP,
    q: NDArray[np.float64],
    soft_target: float,
    target: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Soften the optimum to the first target, then perturb it to the second."""
    batch = ModelBatch.stack([mdp])
    model = (batch.indptr, batch.indices, batch.data, batch.reward[0], batch.gamma)
    initial = mdp.initial.copy()
    pi = np.empty(q.shape)
    _soften(*model, initial, q, soft_target, pi)
    live = np.flatnonzero(~mdp.terminal)
    _perturb(*model, initial, q.argmax(axis=1), live, target, pi, rng)
    return pi


@jit
def _performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v):  # type: ignore[no-untyped-def]
    fill_system(indptr, indices, data, reward, pi, gamma, 0, matrix, v)
    eliminate(matrix, v)
    total = 0.0
    for x in range(len(v)):
        total += initial[x] * v[x]
    return total


@jit
def _soften(indptr, indices, data, reward, gamma, initial, q, target, pi):  # type: ignore[no-untyped-def]
    """Write the first softmax of q, of falling inverse temperature, at or below the target."""
    n_states, n_actions = q.shape
    matrix, v = np.empty((n_states, n_states)), np.empty(n_states)
    inverse = _FIRST_INVERSE_TEMPERATURE
    while True:
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
        found = _performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v)
        # A temperature of no effect ends the search: the uniform policy is as soft as it gets.
        if found <= target or inverse < 1e-9:
            return
        inverse *= _SOFTENING


@jit
def _perturb(indptr, indices, data, reward, gamma, initial, best, states, target, pi, rng):  # type: ignore[no-untyped-def]
    """Take a tenth of the best action's probability in random states until the target is met."""
    n_states, n_actions = pi.shape
    matrix, v = np.empty((n_states, n_states)), np.empty(n_states)
    while _performance(indptr, indices, data, reward, gamma, initial, pi, matrix, v) > target:
        x = states[rng.integers(0, len(states))]
        pi[x, best[x]] *= _PERTURBATION
        total = 0.0
        for a in range(n_actions):
            total += pi[x, a]
        for a in range(n_actions):
            pi[x, a] /= total
