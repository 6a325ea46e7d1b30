"""Where each episode pays once at most, returns lie in the range of rewards."""

import numpy as np
import pytest

from spibb import Log, TabularPolicy, evaluate_policy
from spibb.errors import SettingsError
from spibb.ope.return_range import Outcome
from spibb.ope.trajectories import Trajectories
from spibb.problem.ranges import ValueRange

UNIFORM = TabularPolicy(np.full((3, 2), 0.5))
ALWAYS = TabularPolicy(np.tile([0.02, 0.98], (3, 1)))


def stays(n_episodes, n_steps, rng, paid=1.0, place=-1):
    """Return stays whose outcome, good more often after action 1, is on the last row.

    Args:
        n_episodes: How many.
        n_steps: Rows of each.
        rng: Draws them.
        paid: What a good one pays.
        place: The row that pays; "any": one of those of each episode.
    """
    n = n_episodes * n_steps
    action = rng.integers(0, 2, n)
    often = action.reshape(n_episodes, n_steps).mean(axis=1)
    good = rng.random(n_episodes) < 0.5 + 0.45 * (often > 0.5)
    reward = np.zeros((n_episodes, n_steps))
    rows = rng.integers(0, n_steps, n_episodes) if place == "any" else place
    reward[np.arange(n_episodes), rows] = paid * good
    return Log.from_arrays(
        state=rng.integers(0, 3, n), action=action, reward=reward.ravel(),
        episode=np.arange(n) // n_steps,
    )  # fmt: skip


def found_on(log, **more):
    given = {"policy": ALWAYS, "baseline": UNIFORM, "gamma": 0.99, "estimators": ["is", "pdis"]}
    return evaluate_policy(log, **given | more)


def unlikely_log(place=-1):
    """Return the first log whose plain weighted mean is no probability."""
    for seed in range(50):
        log = stays(60, 6, np.random.default_rng(seed), place=place)
        episode = np.arange(len(log)) // 6
        weight = np.exp(np.bincount(episode, np.log(np.where(log.action == 1, 1.96, 0.04))))
        if (weight * np.bincount(episode, log.reward)).mean() > 1.2:
            return log
    raise AssertionError("no such log")


@pytest.mark.parametrize("gamma", [0.99, 1.0])
@pytest.mark.parametrize("reward_range", [None, (0.0, 1.0)])
@pytest.mark.parametrize("place", [-1, -2, 0, "any"])
def test_a_probability_is_at_most_one(gamma, reward_range, place):
    log = unlikely_log(place)
    found = found_on(log, gamma=gamma, reward_range=reward_range)
    assert all(0.0 <= one.estimate <= 1.0 for one in found.estimates)
    moved = found["is"] if place != -1 else found["pdis"]  # pdis weighs the rows to a payment alone
    for one in (found["is"], moved):
        assert one.estimate == 1.0
        assert any("so this is a probability" in text for text in one.warnings)
    if reward_range is None:
        assert all(one.interval[1] <= 1.0 for one in found.estimates)
        assert found.return_range == (0.0, 1.0)
    assert not found.is_exact


def test_the_probability_of_a_cost_is_at_most_one():
    """With minimize an outcome of 0 or 1 is a reward of 0 or -1."""
    log = unlikely_log()
    names = "state", "action", "reward", "episode"
    costs = Log.from_arrays(**{name: getattr(log, name) for name in names}, minimize=True)
    found, mirrored = found_on(costs), found_on(log)
    assert found.return_range == (-1.0, 0.0)
    for one, other in zip(found.estimates, mirrored.estimates, strict=True):
        assert one.estimate == -other.estimate == -1.0
        assert any("a probability with its sign turned" in text for text in one.warnings)
        assert one.interval[0] >= -1.0
    # Rewards of -1 that are no costs are none.
    turned = Log.from_arrays(**{name: getattr(costs, name) for name in names})
    assert all(one.estimate < -1.0 for one in found_on(turned).estimates)


def test_sums_of_rewards_are_no_probability():
    log = unlikely_log()
    twice = log.reward.copy()
    twice[-6:] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    columns = {name: getattr(log, name) for name in ("state", "action", "episode")}
    found = found_on(Log.from_arrays(**columns, reward=twice))
    assert found["is"].estimate > 1.1
    assert found.return_range == pytest.approx((0.0, 100.0))


def test_what_other_outcomes_could_pay_is_only_told():
    log = stays(60, 6, np.random.default_rng(0), paid=3.0)
    found = found_on(log)
    assert found.return_range == (0.0, 3.0)
    assert not any("probability" in text for one in found.estimates for text in one.warnings)


def test_an_exact_bound_says_that_the_range_was_observed():
    log = stays(400, 2, np.random.default_rng(1))
    found = found_on(log, estimators=["is"], bound="betting", gamma=1.0)
    low, high = found["is"].interval
    assert 0.0 < low < high <= 1.0
    assert not found.is_exact
    assert any("Each episode pays once at most" in text for text in found.assumptions)
    assert any("exact only" in text for text in found.warnings)
    # A range of rewards that is given is no range of sums of them.
    with pytest.raises(SettingsError, match="gamma is 1"):
        found_on(log, estimators=["is"], bound="betting", gamma=1.0, reward_range=(0.0, 1.0))
    with_range = found_on(log, estimators=["is"], bound="betting", reward_range=(0.0, 1.0))
    assert with_range.is_exact
    assert with_range.return_range == pytest.approx((0.0, 100.0))


@pytest.mark.parametrize(
    ("reward", "flags", "expected"),
    [
        ([0, 1, 0, 1], {}, Outcome(0.0, 1.0, True)),
        ([0, 1, 0, -1], {}, Outcome(-1.0, 1.0, False)),
        ([1, 0, 0, 1], {}, Outcome(0.0, 1.0, True)),
        ([0, 1, 0, 1], {"truncated": [False, True, False, True]}, None),
        ([0, 0, 0, 0], {}, None),
        ([1, 0, 0, 0], {}, Outcome(0.0, 1.0, True)),
        ([1, 0, 1, 0], {}, Outcome(0.0, 1.0, True)),
        ([1, 0, -1, 0], {}, Outcome(-1.0, 1.0, False)),
        ([1, 1, 0, 0], {}, None),
        ([1, 0, 1, 0], {"truncated": [False, True, False, True]}, None),
        ([0, 1, 0, 0], {"truncated": [False, False, False, True]}, Outcome(0.0, 1.0, True)),
    ],
)
def test_which_episodes_pay_once(reward, flags, expected):
    n = 10
    columns = {name: np.tile(values, n) for name, values in flags.items()}
    log = Log.from_arrays(
        state=np.zeros(4 * n, int), action=np.zeros(4 * n, int), reward=np.tile(reward, n),
        episode=np.arange(4 * n) // 2, **columns,
    )  # fmt: skip
    values = ValueRange(float(min(reward)), float(max(reward)), 0.9, is_observed=True)
    assert Outcome.of(Trajectories.from_log(log), values) == expected


def rare_payments(n_episodes, n_paid, rng):
    """Return episodes of five rows, a few of all rows paid: two of one episode hardly ever are."""
    n = 5 * n_episodes
    reward = np.zeros(n)
    reward[5 * rng.permutation(n_episodes)[:n_paid] + rng.integers(0, 5, n_paid)] = 1.0
    return Log.from_arrays(
        state=np.zeros(n, int), action=np.zeros(n, int), reward=reward, episode=np.arange(n) // 5
    )


@pytest.mark.parametrize(("n_paid", "is_once"), [(4, False), (20, False), (60, True)])
def test_rare_payments_may_be_once_by_chance(n_paid, is_once):
    """Of 20 among 1,000 rows no two are in one episode in every second log; of 60, in none."""
    log = rare_payments(200, n_paid, np.random.default_rng(0))
    values = ValueRange(0.0, 1.0, 0.9, is_observed=True)
    found = Outcome.of(Trajectories.from_log(log), values)
    assert found == (Outcome(0.0, 1.0, True) if is_once else None)


def test_a_wider_range_that_was_given_is_no_probability():
    log = unlikely_log()
    wider = ValueRange(0.0, 5.0, 0.9, is_observed=False)
    assert Outcome.of(Trajectories.from_log(log), wider) == Outcome(0.0, 5.0, False)
    found = found_on(log, reward_range=(0.0, 5.0))
    assert found["is"].estimate > 1.1


def test_without_a_discount_given_rewards_make_no_range_of_returns_known():
    """Each episode of the log pays 30 once; rewards up to 30 a step may sum to more."""
    log = unlikely_log()
    log = Log.from_arrays(
        state=log.state,
        action=log.action,
        reward=30.0 * log.reward,
        episode=np.arange(len(log)) // 6,
    )
    one = found_on(log, gamma=1.0, reward_range=(0.0, 30.0), estimators=["is"])["is"]
    assert one.estimate > 30.0
    assert one.interval[1] > 30.0
    assert not any("known range" in text for text in one.warnings)
    assert any("which the rewards of the log imply" in text for text in one.warnings)
