"""Processes made to break bounds, each with a baseline and a way to make logs of it.

Benign random problems find no errors. These do: records that stop, tails that are seldom seen, few
long episodes, starts that vary, rare events, missing steps, baselines that are nearly or wholly
certain, costs, ragged lengths, logs that stop when they look best, discounts from 0 to 1, a state
that nobody named, a second logger with other starts, a log that another policy made where few
episodes go, in one state or in many that are seldom seen, a baseline that lists the states of the
log alone, ends in states that may go on.
spibb.testing.claims lists what is claimed of such a log.

>>> log = ADVERSARIES["truncation"].draw(np.random.default_rng(0))
>>> len(log), log.n_episodes
(2000, 2000)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.envs.maintenance import Maintenance
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Adversary:
    """A process with a baseline, and how logs of it are made.

    Attributes:
        title: What it is about.
        mdp: The process.
        baseline: The policy that makes the logs.
        policy: Another policy, of which intervals are made.
        draw: Makes a log, or counts of one too long to be written down.
        reward_range: Smallest and largest possible reward.
        return_range: Smallest and largest possible return, where that is known.
        declared: What is declared to every certificate.
        is_sampled: Whether a log is a sample of independent episodes: else nothing is asked of
            bounds that assume it.
        is_whole: Whether the record is whole: else nothing may be claimed exactly.
        made_by: The policy that made the logs, where it is not the baseline; None: it is.
        is_listed_by_log: Whether the baseline that is given lists the states of the log alone.
    """

    title: str
    mdp: TabularMDP
    baseline: TabularPolicy
    policy: TabularPolicy
    draw: Callable[[np.random.Generator], Log | Counts]
    reward_range: tuple[float, float]
    return_range: tuple[float, float] | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    is_sampled: bool = True
    is_whole: bool = True
    made_by: TabularPolicy | None = None
    is_listed_by_log: bool = False

    def given_baseline(self, log: Log | Counts) -> TabularPolicy:
        """Return the baseline as it is given beside a log."""
        if not self.is_listed_by_log:
            return self.baseline
        return self._listed(self.baseline, log)

    def given_policy(self, log: Log | Counts) -> TabularPolicy:
        """Return the policy of which intervals are made, as it is given beside a log."""
        return self._listed(self.policy, log) if self.is_listed_by_log else self.policy

    def _listed(self, policy: TabularPolicy, log: Log | Counts) -> TabularPolicy:
        rows = np.array([int(name) for name in log.states])
        return TabularPolicy(policy.probabilities[rows], log.state_labels)

    def gain(self, policy: TabularPolicy) -> float:
        """Return the true gain of a policy over the baseline."""
        return self.value(policy) - self.value(self.baseline)

    def value(self, policy: TabularPolicy) -> float:
        """Return the true performance of a policy over the states of the process."""
        table = np.full((self.mdp.n_states, self.mdp.n_actions), 1.0 / self.mdp.n_actions)
        # Logs may lack states of the process, and then so do policies.
        n_actions, rows = policy.n_actions, np.array([int(name) for name in policy.states])
        if self.baseline.n_states > len(rows):
            table[:] = self.baseline.probabilities[: self.mdp.n_states]
        table[rows, :n_actions] = policy.probabilities
        table[rows, n_actions:] = 0.0
        return evaluate(self.mdp, table).performance


def _coins(log: Log, low: float, high: float, rng: np.random.Generator) -> Log:
    """Replace every reward by one of two numbers, with the same mean: rewards that vary most."""
    share = (log.reward - low) / (high - low)
    return replace(log, reward=np.where(rng.random(len(log)) < share, high, low))


def _sampled(
    mdp: TabularMDP,
    baseline: TabularPolicy,
    n_episodes: int,
    max_steps: int,
    coins: tuple[float, float] | None = None,
) -> Callable[[np.random.Generator], Log]:
    def draw(rng: np.random.Generator) -> Log:
        log = Log.sample(mdp, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)
        return log if coins is None else _coins(log, *coins, rng)

    return draw


def _truncation() -> Adversary:
    transition = np.zeros((2, 2, 2))
    transition[0, 1, 1] = transition[1, :, 1] = 1.0
    mdp = TabularMDP(
        transition, [[-0.9, 0.0], [-1.0, -1.0]], 0.5, [1.0, 0.0], ending=[[1.0, 0.0], [0.0, 0.0]]
    )
    baseline = TabularPolicy.uniform(2, 2)
    policy = TabularPolicy([[0.0, 1.0], [0.5, 0.5]])
    return Adversary(
        "records stop after one step, and what follows costs for ever", mdp, baseline, policy,
        _sampled(mdp, baseline, 2_000, 1), (-1.0, 0.0),
    )  # fmt: skip


def _tail(n_tail: int = 30, n_actions: int = 4) -> Adversary:
    n_states = n_tail + 1
    transition = np.zeros((n_states, n_actions, n_states))
    reward, ending = np.full((n_states, n_actions), -1.0), np.zeros((n_states, n_actions))
    reward[0], ending[0] = -0.5, 1.0
    reward[0, 1], ending[0, 1] = 0.0, 0.0
    # Action 1 leads anywhere into the tail, whose states lead on, each seen a few times.
    transition[0, 1, 1:] = 1.0 / n_tail
    for x in range(1, n_states):
        onward = x + 1 if x + 1 < n_states else 0
        transition[x, :, onward] = 0.0 if onward == 0 else 0.9
        ending[x] = 1.0 if onward == 0 else 0.1
    mdp = TabularMDP(transition, reward, 0.8, np.eye(n_states)[0], ending=ending)
    table = np.full((n_states, n_actions), 1 / n_actions)
    table[0] = [0.9, 0.1, 0.0, 0.0]
    new = table.copy()
    new[0] = [0.2, 0.8, 0.0, 0.0]
    baseline = TabularPolicy(table)
    return Adversary(
        "one action leads into a long tail of states, seldom seen", mdp, baseline,
        TabularPolicy(new), _sampled(mdp, baseline, 300, 1_000), (-1.0, 0.0),
    )  # fmt: skip


def _few_long() -> Adversary:
    transition = np.zeros((2, 2, 2))
    transition[0, :, 0] = transition[1, :, 1] = 1.0
    mdp = TabularMDP(transition, [[0.2, 0.8], [0.5, 0.5]], 0.5, [0.5, 0.5])
    baseline = TabularPolicy.uniform(2, 2)
    return Adversary(
        "four long episodes from two starts that never meet", mdp, baseline,
        TabularPolicy([[0.1, 0.9], [0.5, 0.5]]),
        _sampled(mdp, baseline, 4, 800, coins=(0.0, 1.0)), (0.0, 1.0),
    )  # fmt: skip


def _several_starts() -> Adversary:
    rng = np.random.default_rng(1)
    reward = rng.random((6, 3))
    reward[3:] = 0.5  # in half of the contexts nothing matters
    mdp = TabularMDP(np.zeros((6, 3, 6)), reward, 0.0, rng.dirichlet(np.ones(6)))
    baseline = TabularPolicy(rng.dirichlet(np.ones(3), 6) * 0.8 + 0.2 / 3)
    greedy = np.eye(3)[reward.argmax(axis=1)]
    return Adversary(
        "a contextual bandit, gamma = 0", mdp, baseline,
        TabularPolicy(0.5 * baseline.probabilities + 0.5 * greedy),
        _sampled(mdp, baseline, 200, 1, coins=(0.0, 1.0)), (0.0, 1.0), (0.0, 1.0),
    )  # fmt: skip


def _rare(cost: bool, n: int) -> Adversary:
    chance, extreme = 0.005, 100.0
    mean = [1.0, 1.2]
    mean[1 if cost else 0] += chance * ((-extreme if cost else extreme) - mean[1 if cost else 0])
    mdp = TabularMDP(np.zeros((1, 2, 1)), [mean], 0.0)
    baseline = TabularPolicy([[0.5, 0.5]])

    def draw(rng: np.random.Generator) -> Log:
        action = rng.integers(0, 2, n)
        plain = np.where(action == 1, 1.2, 1.0) + 0.2 * rng.uniform(-1.0, 1.0, n)
        hit = (rng.random(n) < chance) & (action == (1 if cost else 0))
        return Log.from_arrays(
            state=np.zeros(n, int), action=action, episode=np.arange(n), n_actions=2,
            reward=np.where(hit, -extreme if cost else extreme, plain),
        )  # fmt: skip

    kind = "cost of the better-looking action" if cost else "jackpot of the other action"
    return Adversary(
        f"a rare {kind}, {n} episodes", mdp, baseline, TabularPolicy([[0.1, 0.9]]), draw,
        (-101.0, 101.0), (-101.0, 101.0),
    )  # fmt: skip


def _gaps() -> Adversary:
    """Steps are lost where they were bad, and what they led to with them."""
    transition = np.zeros((3, 2, 3))
    transition[0, :, 1] = transition[1, :, 2] = 1.0
    ending = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    mdp = TabularMDP(
        transition, [[0.0, 1.0], [-2.0, -2.0], [0.0, 0.0]], 0.9, [1.0, 0.0, 0.0], ending=ending
    )
    baseline = TabularPolicy.uniform(3, 2)

    def draw(rng: np.random.Generator) -> Log:
        log = Log.sample(mdp, baseline, n_episodes=150, max_steps=10, rng=rng)
        # The second step goes unrecorded where action 1 came before.
        before = np.append(-1, log.action[:-1])
        return log.take(~((log.state == 1) & (before == 1)))

    return Adversary(
        "steps are missing where they were bad", mdp, baseline,
        TabularPolicy([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]), draw, (-2.0, 1.0), is_whole=False,
    )  # fmt: skip


def _random_mdp(seed: int, gamma: float, n_states: int = 5, n_actions: int = 3) -> TabularMDP:
    """Return a process with rewards in [-1, 1] whose episodes end with probability 0.15 a step."""
    rng = np.random.default_rng(seed)
    transition = 0.85 * rng.dirichlet(np.full(n_states, 0.4), (n_states, n_actions))
    reward = rng.uniform(-1.0, 1.0, (n_states, n_actions))
    initial = rng.dirichlet(np.ones(n_states))
    ending = np.full((n_states, n_actions), 0.15)
    return TabularMDP(transition, reward, gamma, initial, ending=ending)


def _towards(baseline: Array, seed: int, share: float) -> TabularPolicy:
    rng = np.random.default_rng(seed)
    other = rng.dirichlet(np.ones(baseline.shape[1]), len(baseline))
    other = np.where(baseline > 0, other, 0.0)
    other /= other.sum(axis=1, keepdims=True)
    return TabularPolicy((1.0 - share) * baseline + share * other)


def _plain(title: str, gamma: float, baseline: Array | None = None, n: int = 60) -> Adversary:
    mdp = _random_mdp(11, gamma)
    if baseline is None:
        baseline = np.random.default_rng(12).dirichlet(np.ones(3), 5) * 0.85 + 0.05
    made_by = TabularPolicy(baseline)
    return Adversary(
        title, mdp, made_by, _towards(baseline, 13, 0.3),
        _sampled(mdp, made_by, n, 400, coins=(-1.0, 1.0)), (-1.0, 1.0),
    )  # fmt: skip


def _near_deterministic() -> Adversary:
    chosen = np.eye(3)[np.random.default_rng(5).integers(0, 3, 5)]
    return _plain("a baseline that is 97 % certain", 0.9, 0.955 * chosen + 0.015, n=50)


def _zero_probability() -> Adversary:
    table = np.random.default_rng(6).dirichlet(np.ones(3), 5) * 0.9 + 0.1 / 3
    table[::2, 2] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    found = _plain("a baseline that never takes some actions, which the policy does", 0.9, table)
    policy = 0.7 * table + 0.3 * np.eye(3)[[2] * 5]
    return replace(found, policy=TabularPolicy(policy))


def _ragged() -> Adversary:
    found = _plain("records of any length, some of them stopped", 0.9)

    def draw(rng: np.random.Generator) -> Log:
        log = Log.sample(found.mdp, found.baseline, n_episodes=80, max_steps=400, rng=rng)
        assert log.step is not None
        assert log.is_first is not None
        # Each record has a length of its own, drawn beforehand.
        longest = rng.integers(1, 12, log.n_episodes)[np.cumsum(log.is_first) - 1]
        kept = log.take(log.step < longest)
        assert kept.episode is not None
        last = np.append(kept.episode[1:] != kept.episode[:-1], True)
        return _coins(replace(kept, truncated=last & ~kept.terminated), -1.0, 1.0, rng)

    return replace(found, draw=draw)


def _costs() -> Adversary:
    machine = Maintenance()
    mdp, baseline = machine.to_mdp(0.9), machine.baseline(0.3)
    policy = TabularPolicy(0.8 * baseline.probabilities + 0.2 * np.eye(3)[[0] * mdp.n_states])
    return Adversary(
        "maintenance: costs only, rare breakdowns, a frontier", mdp, baseline, policy,
        _sampled(mdp, baseline, 60, 40), (-30.0, 0.0),
    )  # fmt: skip


def _adaptive() -> Adversary:
    mdp = TabularMDP(np.zeros((1, 2, 1)), [[0.5, 0.5]], 0.0)
    baseline = TabularPolicy([[0.5, 0.5]])

    def draw(rng: np.random.Generator) -> Log:
        n = 1_000
        action, reward = rng.integers(0, 2, n), (rng.random(n) < 0.5).astype(float)
        ones, size = np.cumsum(action), np.arange(1, n + 1)
        lead = np.cumsum(reward * action) / np.maximum(ones, 1)
        lead -= np.cumsum(reward * (1 - action)) / np.maximum(size - ones, 1)
        stop = int(np.argmax(np.where(size >= 20, lead * np.sqrt(size), -np.inf))) + 1
        return Log.from_arrays(
            state=np.zeros(stop, int), action=action[:stop], reward=reward[:stop],
            episode=np.arange(stop), n_actions=2,
        )  # fmt: skip

    return Adversary(
        "the log stops when the second action looks best", mdp, baseline,
        TabularPolicy([[0.0, 1.0]]), draw, (0.0, 1.0), is_sampled=False,
    )  # fmt: skip


def _undiscounted() -> Adversary:
    """Four layers of two states, one step each: returns lie in [-4, 4]."""
    rng = np.random.default_rng(21)
    transition, ending = np.zeros((8, 2, 8)), np.zeros((8, 2))
    for layer in range(3):
        for x in (2 * layer, 2 * layer + 1):
            transition[x, :, 2 * layer + 2 : 2 * layer + 4] = rng.dirichlet(np.ones(2), 2)
    ending[6:] = 1.0
    mdp = TabularMDP(transition, rng.uniform(-1, 1, (8, 2)), 1.0, np.eye(8)[0], ending=ending)
    table = rng.dirichlet(np.ones(2), 8) * 0.8 + 0.1
    baseline = TabularPolicy(table)
    return Adversary(
        "gamma = 1, four steps", mdp, baseline, _towards(table, 22, 0.5),
        _sampled(mdp, baseline, 100, 10, coins=(-1.0, 1.0)), (-1.0, 1.0), (-4.0, 4.0),
    )  # fmt: skip


def _unlisted() -> Adversary:
    transition = np.zeros((2, 2, 2))
    transition[0, 1, 1], transition[1, :, 1] = 0.015, 1.0
    mdp = TabularMDP(
        transition, [[0.0, 1.0], [-1.0, -1.0]], 0.99, [1.0, 0.0], ending=[[1.0, 0.985], [0.0, 0.0]]
    )

    def draw(rng: np.random.Generator) -> Log:
        both = TabularPolicy.uniform(2, 2)
        while True:  # logs that do not name the second state, which half of them do not
            log = Log.sample(mdp, both, n_episodes=100, max_steps=1, rng=rng)
            if not (log.next_state == 1).any():
                return replace(log, n_states=1)

    return Adversary(
        "a state that nobody names costs for ever", mdp, TabularPolicy.uniform(1, 2),
        TabularPolicy([[0.0, 1.0]]), draw, (-1.0, 1.0), is_sampled=False,
    )  # fmt: skip


def _wrong_baseline(n_rare: int = 1) -> Adversary:
    """In rare states, where 1.5 % of the episodes of action 1 go, the log is of another policy."""
    n_states = n_rare + 1
    transition, ending = np.zeros((n_states, 2, n_states)), np.ones((n_states, 2))
    transition[0, 1, 1:], ending[0, 1] = 0.015 / n_rare, 0.985
    reward = np.array([[0.5, 0.6], *[[10.0, -10.0]] * n_rare])
    mdp = TabularMDP(transition, reward, 0.9, np.eye(n_states)[0], ending=ending)
    baseline = TabularPolicy([[0.5, 0.5], *[[0.1, 0.9]] * n_rare])
    made_by = TabularPolicy([[0.5, 0.5], *[[0.9, 0.1]] * n_rare])
    where = "where few episodes go" if n_rare == 1 else f"in {n_rare} states that are seldom seen"
    return Adversary(
        f"another policy than the baseline made the log, {where}", mdp, baseline,
        TabularPolicy([[0.2, 0.8], *[[0.1, 0.9]] * n_rare]), _sampled(mdp, made_by, 6_000, 5),
        (-10.0, 10.0), (-10.0, 10.0), made_by=made_by,
    )  # fmt: skip


def _unlisted_states(n_rare: int = 300) -> Adversary:
    """One action leads to any of many states, most of which no log holds, a tenth of them bad."""
    n_states = n_rare + 1
    transition, ending = np.zeros((n_states, 2, n_states)), np.zeros((n_states, 2))
    transition[0, 1, 1:], ending[0, 0] = 1.0 / n_rare, 1.0
    places = np.arange(1, n_states)
    transition[places, :, places], ending[1:] = 0.95, 0.05
    reward = np.ones((n_states, 2))
    reward[0], reward[1 : 1 + n_rare // 10] = 0.0, -1.0
    mdp = TabularMDP(transition, reward, 0.8, np.eye(n_states)[0], ending=ending)
    baseline = TabularPolicy.uniform(n_states, 2)
    table = baseline.probabilities.copy()
    table[0] = [0.1, 0.9]

    def draw(rng: np.random.Generator) -> Log:
        log = Log.sample(mdp, baseline, n_episodes=100, max_steps=400, rng=rng)
        met = np.unique(np.append(log.state, log.next_state[log.next_state >= 0]))
        after = np.where(log.next_state >= 0, np.searchsorted(met, log.next_state), -1)
        return replace(
            log, state=np.searchsorted(met, log.state), next_state=after, n_states=len(met),
            state_labels=tuple(str(x) for x in met),
        )  # fmt: skip

    return Adversary(
        "the baseline lists the states of the log, a part of many", mdp, baseline,
        TabularPolicy(table), draw, (-1.0, 1.0), is_listed_by_log=True,
    )  # fmt: skip


def _merged_ends(n_ends: int = 20) -> Adversary:
    """States in which most episodes end, and three of a hundred go on at a high cost."""
    n_states = n_ends + 1
    transition, ending = np.zeros((n_states, 2, n_states)), np.zeros((n_states, 2))
    transition[0, 1, 1:], ending[0] = 0.03 / n_ends, [1.0, 0.97]
    places = np.arange(1, n_states)
    transition[places, :, places], ending[1:] = 0.95, 0.05
    reward = np.full((n_states, 2), -1.0)
    reward[0] = [0.3, 0.5]
    mdp = TabularMDP(transition, reward, 0.95, np.eye(n_states)[0], ending=ending)
    baseline = TabularPolicy.uniform(n_states, 2)
    table = baseline.probabilities.copy()
    table[0] = [0.1, 0.9]

    def draw(rng: np.random.Generator) -> Log:
        log = Log.sample(mdp, baseline, n_episodes=150, max_steps=400, rng=rng)
        ends_after_1 = log.terminated & (log.state == 0) & (log.action == 1)
        named = rng.integers(1, n_states, len(log))
        return replace(log, next_state=np.where(ends_after_1, named, log.next_state))

    return Adversary(
        "episodes end in states in which others go on", mdp, baseline, TabularPolicy(table), draw,
        (-1.0, 1.0),
    )  # fmt: skip


def _never_tried() -> Adversary:
    """One way leads to where it is good, the other, unobserved, to where it is bad, for ever."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    mdp = TabularMDP(transition, [[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]], 0.5, [0.9, 0.0, 0.1])
    baseline = TabularPolicy([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    declared = {
        "states_complete": True,
        "never_ends": True,
        "initial": [0.9, 0.0, 0.1],
        "successors": np.argwhere(transition > 0).tolist(),
    }
    return Adversary(
        "an unobserved action, where all else is declared", mdp, baseline,
        TabularPolicy([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]),
        _sampled(mdp, baseline, 100, 30), (-1.0, 1.0), declared=declared,
    )  # fmt: skip


def _well_known() -> Adversary:
    """So many rows that every theorem has something to say, and could be seen to be wrong."""
    rng = np.random.default_rng(31)
    n_states, n_actions, n = 3, 2, 10**9
    transition = rng.dirichlet(np.ones(n_states), n_states * n_actions)
    reward = rng.uniform(0.2, 0.8, (n_states, n_actions))
    mdp = TabularMDP(transition.reshape(n_states, n_actions, n_states), reward, 0.5, np.eye(3)[0])
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n_states))
    best = TabularPolicy(np.eye(n_actions)[reward.argmax(axis=1)])

    def draw(rng: np.random.Generator) -> Counts:
        paid = rng.binomial(n, reward).astype(np.float64)
        return Counts(
            n_sa=np.full(reward.shape, n),
            n_sas=sp.csr_array(rng.multinomial(n, transition)),
            n_end=sp.csr_array(np.zeros(transition.shape, dtype=np.int64)),
            reward_sum=paid,
            reward_range=(0.0, 1.0),
            n_initial=np.array([n, 0, 0]),
        )

    return Adversary(
        "a billion rows a pair, everything declared", mdp, baseline, best, draw, (0.0, 1.0),
        declared={"states_complete": True, "initial": [1.0, 0.0, 0.0]}, is_sampled=False,
    )  # fmt: skip


def _two_loggers() -> Adversary:
    """Another policy made half of the log: it tries what the baseline never does, elsewhere."""
    mdp = _random_mdp(42, 0.9)
    table = np.random.default_rng(42).dirichlet(np.ones(3), 5) * 0.85 + 0.05
    table[:, 2] = 0.0
    baseline = TabularPolicy(table / table.sum(axis=1, keepdims=True))
    best = np.eye(5)[int(evaluate(mdp, baseline).v.argmax())]
    elsewhere = TabularMDP(mdp.transition, mdp.reward, 0.9, best, ending=mdp.ending)

    def draw(rng: np.random.Generator) -> Log:
        logs = [
            _sampled(mdp, baseline, 60, 400, coins=(-1.0, 1.0))(rng),
            _sampled(elsewhere, TabularPolicy.uniform(5, 3), 60, 400, coins=(-1.0, 1.0))(rng),
        ]
        return joined_logs(logs, ("old", "new"))

    return Adversary(
        "half of the log is another policy's, with other actions and other starts", mdp, baseline,
        _towards(baseline.probabilities, 43, 0.3), draw, (-1.0, 1.0),
        declared={"improve_on": "old"},
    )  # fmt: skip


def joined_logs(logs: Sequence[Log], names: Sequence[str]) -> Log:
    """Return one log of several, each made by the policy of its name."""
    columns = ("state", "action", "reward", "next_state", "terminated", "truncated", "step")
    lengths = [len(log) for log in logs]
    # Episodes of one come between those of the other.
    numbers = [np.cumsum(np.asarray(log.is_first)) * len(logs) + k for k, log in enumerate(logs)]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(log, name) for log in logs]) for name in columns
    }
    return Log.from_arrays(
        **joined,
        episode=np.concatenate(numbers),
        policy=np.repeat(np.array(names), lengths),
        n_states=max(log.n_states for log in logs),
        n_actions=max(log.n_actions for log in logs),
    )


ADVERSARIES: dict[str, Adversary] = {
    "benign": _plain("random, nothing special", 0.9),
    "truncation": _truncation(),
    "tail": _tail(),
    "few-long-episodes": _few_long(),
    "several-starts": _several_starts(),
    "rare-costs": _rare(True, 200),
    "rare-jackpots": _rare(False, 200),
    "step-gaps": _gaps(),
    "near-deterministic": _near_deterministic(),
    "zero-probability": _zero_probability(),
    "ragged": _ragged(),
    "costs": _costs(),
    "counts-by-outcome": _adaptive(),
    "unlisted-state": _unlisted(),
    "never-tried": _never_tried(),
    "well-known": _well_known(),
    "gamma-0": _plain("gamma = 0, several states", 0.0),
    "gamma-0.99": _plain("gamma = 0.99", 0.99),
    "gamma-1": _undiscounted(),
    "two-loggers": _two_loggers(),
    "wrong-baseline": _wrong_baseline(),
    "wrong-in-rare-states": _wrong_baseline(300),
    "unlisted-states": _unlisted_states(),
    "merged-ends": _merged_ends(),
}
