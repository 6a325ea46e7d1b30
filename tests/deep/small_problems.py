"""Small data sets, finite problems and the rules, for the tests of this folder."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import torch

from spibb import (
    ApproxSoftSPIBB,
    BasicRL,
    Counts,
    ExactSoftSPIBB,
    GivenErrors,
    Log,
    PiBSPIBB,
    PiLeqBSPIBB,
    RaMDP,
    TabularMDP,
    TabularPolicy,
)
from spibb.deep.network import read_arrays, write_arrays
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import (
    DQN,
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
)
from spibb.deep.training_data import TrainingData
from spibb.deep.transitions import Transitions

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

# At these limits rules are Double-DQN, or act as the baseline.
LOOSE = [
    RaMDPDQN(kappa=0),
    PiBSPIBBDQN(n_wedge=0),
    PiLeqBSPIBBDQN(n_wedge=0),
    ApproxSoftSPIBBDQN(epsilon=np.inf),
    ExactSoftSPIBBDQN(epsilon=np.inf),
]
TIGHT = [
    PiBSPIBBDQN(n_wedge=np.inf),
    PiLeqBSPIBBDQN(n_wedge=np.inf),
    ApproxSoftSPIBBDQN(epsilon=0),
    ExactSoftSPIBBDQN(epsilon=0),
]

RULES = [
    DQN(),
    DoubleDQN(),
    RaMDPDQN(kappa=0.1),
    PiBSPIBBDQN(n_wedge=8),
    PiLeqBSPIBBDQN(n_wedge=8),
    ApproxSoftSPIBBDQN(epsilon=0.3),
    ExactSoftSPIBBDQN(epsilon=0.3),
]


def random_data(n_rows=300, n_features=3, n_actions=4, seed=0) -> TrainingData:
    """Data without any sense, with unseen and rare pairs among the next ones."""
    rng = np.random.default_rng(seed)
    n_next = rng.exponential(10, (n_rows, n_actions))
    n_next[rng.random(n_next.shape) < 0.1] = 0
    return TrainingData(
        state=rng.random((n_rows, n_features)),
        action=rng.integers(0, n_actions, n_rows),
        reward=rng.normal(size=n_rows),
        next_state=rng.random((n_rows, n_features)),
        terminated=rng.random(n_rows) < 0.2,
        n_here=rng.exponential(10, n_rows) + 1,
        baseline_next=rng.dirichlet(np.ones(n_actions), n_rows),
        n_next=n_next,
    )


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """A log of a small MDP, as a table and as one-hot transitions."""

    log: Log
    counts: Counts
    baseline: TabularPolicy
    transitions: Transitions
    gamma: float

    def action_probabilities(self, one_hot):
        """The baseline, of one-hot states."""
        return self.baseline.probabilities[np.asarray(one_hot).argmax(-1)]

    def training_data(self) -> TrainingData:
        return TrainingData.from_transitions(self.transitions, self, KernelCounts(width=0.5))

    def tabular(self, rule):
        """The model-based algorithm that a rule stands for."""
        with np.errstate(divide="ignore"):
            error = GivenErrors(1 / np.sqrt(self.counts.n_sa))
        algorithm = {
            "dqn": lambda: BasicRL(),
            "double-dqn": lambda: BasicRL(),
            "ramdp-dqn": lambda: RaMDP(kappa=rule.kappa),
            "pi-b-spibb-dqn": lambda: PiBSPIBB(n_wedge=rule.n_wedge),
            "pi-leq-b-spibb-dqn": lambda: PiLeqBSPIBB(n_wedge=rule.n_wedge),
            "approx-soft-spibb-dqn": lambda: ApproxSoftSPIBB(
                epsilon=rule.epsilon, error=error, delta=1.0
            ),
            "exact-soft-spibb-dqn": lambda: ExactSoftSPIBB(
                epsilon=rule.epsilon, error=error, delta=1.0
            ),
        }[rule.id]()
        # A network without data for a pair predicts what it was born with: nothing, here.
        return algorithm.improve(
            self.log, baseline=self.baseline, gamma=self.gamma, unseen="terminal"
        )


def finite_problem(
    *, n_states=6, n_actions=3, n_episodes=40, gamma=0.8, seed=0, n_successors=2, concentration=1.0
) -> FiniteProblem:
    """A random MDP whose last state is terminal, logged by a random baseline."""
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_states, n_actions, n_states))
    for x in range(n_states):
        for a in range(n_actions):
            successors = rng.choice(n_states, n_successors, replace=False)
            transition[x, a, successors] = rng.dirichlet(np.ones(n_successors))
    mdp = TabularMDP(
        transition,
        rng.normal(size=(n_states, n_actions)),
        gamma,
        terminal=np.arange(n_states) == n_states - 1,
    )
    baseline = TabularPolicy(rng.dirichlet(np.full(n_actions, concentration), n_states))
    log = Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=20, rng=rng)
    one_hot = np.eye(n_states, dtype=np.float32)
    transitions = Transitions.from_arrays(
        one_hot[log.state],
        log.action,
        log.reward,
        one_hot[log.next_state],
        log.terminated,
        n_actions=n_actions,
    )
    return FiniteProblem(log, Counts.from_log(log), baseline, transitions, gamma)


def damage(folder, change):
    """Change the arrays of the pseudo-counts of a policy, or what its JSON says."""
    about, points = folder / "policy.json", folder / "counts.safetensors"
    told = json.loads(about.read_text())
    stored, header = read_arrays(points)
    arrays = {name: np.array(part) for name, part in stored.items()}
    change(arrays, told)
    write_arrays(points, arrays, header)
    about.write_text(json.dumps(told))
