"""What is better, and what a good and a bad episode look like: without ids, and not of a few."""

import json

import numpy as np
import pytest

from spibb import Log
from spibb.data.counts import Counts
from spibb.data.objective import EpisodeExample, Objective


def stays(**options):
    """Return 20 stays of 1 to 20 days that pay 1 a day; every second one is truncated."""
    lengths = np.arange(1, 21)
    day = np.concatenate([np.arange(n) for n in lengths])
    last = np.concatenate([np.arange(n) == n - 1 for n in lengths])
    stay = np.repeat(np.arange(20), lengths)
    return Log.from_arrays(
        state=np.minimum(day, 2), action=np.zeros_like(day), reward=np.ones(len(day)),
        episode=990_000 + 7 * stay, step=day, terminated=last & (stay % 2 == 1),
        truncated=last & (stay % 2 == 0), state_labels=("first", "second", "later"),
        action_labels=("care",), **options,
    )  # fmt: skip


def test_the_quantiles_of_the_sum_of_rewards():
    found = Objective.of(stays())
    assert found.good == EpisodeExample(18.0, 18, "later", "care", 1.0, "ended")
    assert found.bad == EpisodeExample(2.0, 2, "second", "care", 1.0, "ended")
    assert found.sentences == (
        "Higher rewards are better.",
        "A good episode (90 % quantile): sum of rewards 18, 18 rows, the last: state later, action "
        "care, reward 1; then the process ends.",
        "A bad episode (10 % quantile): sum of rewards 2, 2 rows, the last: state second, action "
        "care, reward 1; then the process ends.",
    )


def test_returns_are_discounted_and_a_record_that_stops_is_no_end():
    found = Objective.of(stays(), 0.5)
    assert found.bad.total == 1.5
    assert found.good.total == pytest.approx(2.0 - 0.5**17)
    assert "return 1.5, 2 rows" in found.sentences[2]
    cut = stays().take(np.repeat(np.arange(20) >= 3, np.arange(1, 21)))  # 4 to 20 days
    assert Objective.of(cut).bad == EpisodeExample(5.0, 5, "later", "care", 1.0, "truncated")
    opened = Log.from_arrays(state=[0] * 24, action=[0] * 24, reward=np.arange(24.0) // 2,
                             episode=np.arange(24) // 2, terminated=np.zeros(24, bool))  # fmt: skip
    assert "then the record stops" in Objective.of(opened).sentences[1]


def test_what_follows_an_end_does_not_count():
    log = Log.from_arrays(
        state=[0, 1] * 12, action=[0] * 24, reward=[1.0, 50.0] * 12, episode=np.arange(24) // 2,
        terminated=[True, False] * 12,
    )  # fmt: skip
    assert Objective.of(log).good == EpisodeExample(1.0, 1, "0", "0", 1.0, "ended")


def test_costs_are_told_with_their_sign():
    found = Objective.of(stays(minimize=True))
    assert found.good.total == -3.0
    assert found.bad.total == -19.0, "a long stay costs most"
    assert found.sentences[0].startswith("Lower costs are better (minimize).")
    assert "sum of rewards -19 (cost 19), 19 rows" in found.sentences[2]
    assert "reward -1 (cost 1)" in found.sentences[2]
    assert found.to_dict()["direction"] == "minimize"


def test_what_episodes_are_called_does_not_matter():
    log = stays()
    other = Log.from_arrays(
        state=log.state, action=log.action, reward=log.reward, episode=-log.episode, step=log.step,
        terminated=log.terminated, truncated=log.truncated, state_labels=log.state_labels,
        action_labels=log.action_labels,
    )  # fmt: skip
    assert Objective.of(other).to_dict() == Objective.of(log).to_dict()
    assert "990" not in json.dumps(Objective.of(log).to_dict())


def test_where_most_episodes_are_alike():
    log = Log.from_arrays(state=[0] * 40, action=[0] * 40, reward=[1.0] + [0.0] * 39,
                          episode=range(40))  # fmt: skip
    assert Objective.of(log, 0.9).sentences[1:] == (
        "From the 10 % to the 90 % quantile every episode has the same return 0. One of them: 1 "
        "row: state 0, action 0, reward 0; then the process ends.",
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (stays().take(np.repeat(np.arange(20) < 9, np.arange(1, 21))), "fewer than 10 episodes"),
        (Log.from_arrays(state=[0], action=[0], reward=[1.0], next_state=[0]), "has no episodes"),
        (Counts.from_log(stays()), "counts keep no episodes"),
    ],
)
def test_none_is_described(data, why):
    found = Objective.of(data, 0.9)
    assert (found.good, found.bad) == (None, None)
    assert why in found.sentences[1]
    assert json.loads(json.dumps(found.to_dict()))["good_episode"] is None
