"""Costs in the place of rewards: one rule, at every place where a log is read or counted."""

import numpy as np
import pytest

import spibb
from spibb.data.counting import count_log
from spibb.data.counts import Counts

HEAD = "episode,state,action,reward,next_state,terminated\n"
# Costs: 'cheap' costs 1 a day and 'dear' 3; an empty end costs nothing.
ROWS = [
    (
        k,
        "home" if k % 3 else "away",
        "cheap" if k % 2 else "dear",
        1.0 if k % 2 else 3.0,
        "",
        "true",
    )
    for k in range(24)
]


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text(HEAD + "".join(",".join(map(str, row)) + "\n" for row in ROWS), "utf-8")
    return path


@pytest.fixture
def rewards(costs, tmp_path):
    """The same log with the sign of the column turned by hand."""
    path = tmp_path / "rewards.csv"
    rows = [(*row[:3], -row[3], *row[4:]) for row in ROWS]
    path.write_text(HEAD + "".join(",".join(map(str, row)) + "\n" for row in rows), "utf-8")
    return path


def test_every_door_turns_the_sign_once(costs, rewards, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    import pyarrow.parquet

    by_hand = spibb.read_log(rewards)
    table = pyarrow.csv.read_csv(costs, convert_options=pyarrow.csv.ConvertOptions(
        column_types={"next_state": pa.string()}, strings_can_be_null=True))  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "costs.parquet")
    lines = [
        f'{{"episode": {e}, "state": "{s}", "action": "{a}", "reward": {r}, "terminated": true}}\n'
        for e, s, a, r, *_ in ROWS
    ]
    (tmp_path / "costs.jsonl").write_text("".join(lines), "utf-8")
    read = [
        spibb.read_log(costs, minimize=True),
        spibb.read_log(costs, by="state", minimize=True),  # as a whole table
        spibb.read_log(tmp_path / "costs.parquet", minimize=True),
        spibb.read_log(tmp_path / "costs.jsonl", minimize=True),
        spibb.read_log(table, minimize=True),
        spibb.Log.from_dataframe(table, minimize=True),
    ]
    for log in read:
        assert log.minimize
        assert log.reward.tolist() == by_hand.reward.tolist()
        assert log.content_hash == by_hand.content_hash
    assert not by_hand.minimize
    assert "cost with its sign turned" in repr(read[0])
    assert not np.signbit(spibb.Log.from_arrays(
        state=[0], action=[0], reward=[0.0], minimize=True).reward).any()  # fmt: skip


def test_a_part_of_the_log_and_other_names_remember(costs):
    log = spibb.read_log(costs, minimize=True)
    half = log.take(log.is_in_first_half)
    assert half.minimize
    assert half.reward.tolist() == log.reward[log.is_in_first_half].tolist()
    assert Counts.from_log(half).minimize
    renamed = log.renamed(log.states.union(log.actions), log.actions)
    assert renamed.minimize
    assert renamed.reward.tolist() == log.reward.tolist()


def test_to_minimize_is_to_improve_the_turned_column(costs, rewards):
    known = {"baseline": "estimate", "gamma": 0.9, "reward_range": (-3.0, 0.0)}
    algorithm = spibb.BasicRL()
    one = algorithm.improve(spibb.read_log(costs, minimize=True), **known)
    other = algorithm.improve(spibb.read_log(rewards), **known)
    np.testing.assert_array_equal(one.policy.probabilities, other.policy.probabilities)
    assert one.performance == other.performance
    # The cheap action is taken, which costs less: the gain is what is saved.
    assert one.policy["home"] == {"cheap": 1.0, "dear": 0.0}
    assert one.performance == -1.0
    assert one.estimated_gain > 0.0
    assert (one.policy.minimize, other.policy.minimize) == (True, False)
    # A table takes the option where a log is made of it.
    frame = pytest.importorskip("pandas").read_csv(costs)
    same = algorithm.improve(frame, minimize=True, **known)
    np.testing.assert_array_equal(same.policy.probabilities, one.policy.probabilities)


def test_counts_remember_and_do_not_mix(costs, rewards, tmp_path):
    counts = count_log(costs, minimize=True, keep_ends=True, gamma=0.9)
    whole = Counts.from_log(spibb.read_log(costs, minimize=True))
    assert counts.minimize
    np.testing.assert_array_equal(counts.reward_sum, whole.reward_sum)
    np.testing.assert_array_equal(counts.paid.spread, whole.paid.spread)
    assert counts.reward_range == (-3.0, -1.0)
    assert counts.returns.gain.sum() < 0.0
    counts.save(tmp_path / "counts.npz")
    read = Counts.load(tmp_path / "counts.npz")
    assert read.minimize
    with pytest.raises(spibb.SpibbError, match="counts of costs and counts of rewards"):
        _ = read + count_log(rewards, keep_ends=True, gamma=0.9)
    more = tmp_path / "more.csv"
    more.write_text(HEAD + "100,home,dear,3.0,,true\n", "utf-8")
    alone = count_log(costs, minimize=True)
    added = alone.update(count_log(more, minimize=True))
    assert added.reward_sum.sum() == alone.reward_sum.sum() - 3.0
    assert count_log(costs, minimize=True, keep_ends=True).update(more).reward_range[1] == -1.0


def test_a_log_or_counts_without_it_are_not_turned_afterwards(rewards):
    log = spibb.read_log(rewards)
    for data, said in ((log, r"read_log\(..., minimize=True"), (Counts.from_log(log), "count")):
        with pytest.raises(spibb.SpibbError, match=said):
            spibb.Problem.of(data, baseline="estimate", gamma=0.9, minimize=True)
    with pytest.raises(spibb.SpibbError, match="minimize"):
        spibb.inspect(log, minimize=True)
    turned = spibb.read_log(rewards, minimize=True)
    assert spibb.Problem.of(turned, baseline="estimate", gamma=0.9, minimize=True).minimize


def problem(costs, **options):
    return spibb.Problem.of(costs, baseline="estimate", gamma=0.9, **options)


def mixed_costs():
    """Costs from -3 to 5: a sign alone does not tell a range of costs from one of rewards."""
    return spibb.Log.from_arrays(
        state=[0] * 12, action=[0, 1] * 6, reward=[-3.0, 5.0] * 6, episode=range(12), minimize=True
    )


def test_a_range_of_costs_is_refused_and_the_right_one_named(costs):
    log = spibb.read_log(costs, minimize=True)
    with pytest.raises(spibb.SpibbError) as told:
        problem(log, reward_range=(0.0, 3.0))
    assert "rewards from -3 to -1, which are costs from 1 to 3" in str(told.value)
    assert "reward_range = (-3.0, 0.0)" in str(told.value)
    with pytest.raises(spibb.SpibbError, match="widen reward_range"):
        problem(log, reward_range=(-2.0, 0.0))
    assert problem(log, reward_range=(-3.0, 0.0)).values.low == -3.0


def test_a_range_that_can_be_read_with_either_sign_is_refused():
    for given in ((-8.0, 5.0), (-5.0, 8.0)):
        with pytest.raises(spibb.SpibbError, match=r"either sign.*\(-8.0, 8.0\)"):
            problem(mixed_costs(), reward_range=given)
    assert problem(mixed_costs(), reward_range=(-8.0, 8.0)).values.high == 8.0
    without = spibb.Log.from_arrays(
        state=[0] * 12, action=[0, 1] * 6, reward=[3.0, -5.0] * 6, episode=range(12)
    )
    assert problem(without, reward_range=(-8.0, 5.0)).values.high == 5.0


def test_a_range_of_returns_likewise(costs):
    log = spibb.read_log(costs, minimize=True)
    policy = spibb.TabularPolicy([[0.5, 0.5]] * 2, ("away", "home"), ("cheap", "dear"))
    known = {"policy": policy, "baseline": "estimate", "gamma": 1.0, "bound": "betting"}
    with pytest.raises(spibb.SpibbError, match=r"returns.*costs from 1 to 3.*\(-4.0, 0.0\)"):
        spibb.evaluate_policy(log, return_range=(0.0, 4.0), estimators=["is"], **known)
    found = spibb.evaluate_policy(log, return_range=(-4.0, 0.0), estimators=["is"], **known)
    assert -4.0 <= found["is"].estimate <= 0.0


def test_a_policy_remembers_what_it_was_made_for(costs, rewards, tmp_path):
    for path, minimize in ((costs, True), (rewards, False)):
        made = spibb.BasicRL().improve(
            spibb.read_log(path, minimize=minimize), baseline="estimate", gamma=0.9
        )
        made.policy.write(tmp_path / f"{minimize}.parquet")
        made.policy.write(tmp_path / f"{minimize}.csv")
    made_for_costs = spibb.TabularPolicy.read(tmp_path / "True.parquet")
    assert made_for_costs.minimize is True
    assert spibb.TabularPolicy.read(tmp_path / "False.parquet").minimize is False
    assert spibb.TabularPolicy.read(tmp_path / "True.csv").minimize is None
    log, turned = spibb.read_log(rewards), spibb.read_log(costs, minimize=True)
    made_for_rewards = spibb.TabularPolicy.read(tmp_path / "False.parquet")
    for given, policy, said in (
        (log, made_for_costs, "made with --minimize, and this log is read without it"),
        (turned, made_for_rewards, "made without --minimize, and this log is read with it"),
    ):
        for judge in (spibb.audit, spibb.evaluate_policy):
            with pytest.raises(spibb.SpibbError, match=said):
                judge(given, policy=policy, baseline="estimate", gamma=0.9)
        with pytest.raises(spibb.SpibbError, match=said):
            spibb.Assessment.of(problem(given), policy)
    assert spibb.audit(turned, policy=made_for_costs, baseline="estimate", gamma=0.9)
    unknown = spibb.TabularPolicy.read(tmp_path / "True.csv")
    assert spibb.audit(log, policy=unknown, baseline="estimate", gamma=0.9)


def test_a_cost_beside_the_rewards_keeps_its_sign(tmp_path):
    path = tmp_path / "log.csv"
    rows = "".join(f"{k},0,{k % 2},{k % 2},{k % 3}\n" for k in range(12))
    path.write_text("episode,state,action,reward,dose\n" + rows, "utf-8")
    log = spibb.read_log(path, costs=["dose"], minimize=True)
    assert log.cost[:, 0].tolist() == [k % 3 for k in range(12)]
    assert not log.paying("dose").minimize
