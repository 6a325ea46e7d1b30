"""Mistakes with logs are named, and what only looks like one is not."""

import warnings

import numpy as np
import pytest

import spibb
from spibb import Log, TabularMDP, TabularPolicy, inspect
from spibb.errors import DataError
from spibb.inspection.alignment import Difference, _test
from spibb.inspection.cost_column import is_cost
from spibb.inspection.evidence import Evidence
from spibb.inspection.registry import CHECKS
from spibb.inspection.spelling import alike, plain_spelling
from spibb.studies.risk.problems import PROBLEMS
from spibb.testing.silent_mistakes import MISTAKES, log_of, table_of

# Costs under another name are found where states are many, as in the gridworld; rewards of a state
# alone, as in Wet Chicken and the gridworld, may stand on the next row.
KINDS = {"gridworld": {"late-reward"}, "wet-chicken": {"late-reward", "costs"}}
NAMED = {name for one in MISTAKES.values() for name in one.findings}


def findings(log, **given):
    return {one.check: one for one in inspect(log, **given).findings}


def sampled(name, n_episodes=200, seed=3):
    rng = np.random.default_rng(seed)
    problem = PROBLEMS[name]
    return problem.sample(problem.make(rng), n_episodes, rng)


@pytest.fixture(scope="module", params=list(KINDS))
def table(request):
    return request.param, table_of(sampled(request.param))


def test_mistakes_are_named(table):
    kind, sound = table
    assert not NAMED & set(findings(log_of(sound)))
    for name, mistake in MISTAKES.items():
        found = findings(log_of(mistake.make(sound, np.random.default_rng(0))))
        if name not in KINDS[kind]:
            named = [found[one] for one in mistake.findings if one in found]
            assert named, (kind, name, list(found))
            assert all(one.found and one.effect and one.advice for one in named)


def test_labels_that_are_spelled_alike():
    assert alike(("Drug-A", "drug a", "drug_a", "DRUG.A", "drug b")) == [[0, 1, 2, 3]]
    assert plain_spelling("Straße") == plain_spelling("STRASSE")
    apart = ("-1", "1", "a+", "a-", "a", "<5 mg", ">5 mg", "1-12", "11-2", "x 1.5", "x 15", "x -1")
    assert alike(apart) == []
    assert alike(("ward 1/bed 2", "Ward 1 bed 2", "ward 1/bed 12")) == [[0, 1]]


def test_dashes_spaces_and_quotes_of_any_alphabet_are_separators():
    dashes = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
    spaces = "\u00a0\u2002\u2009\u202f\u3000\u00ad\u200b\u2060\ufeff"
    labels = ("Drug-A", *(f"drug{sign}a" for sign in dashes + spaces))
    assert alike(labels) == [list(range(len(labels)))]
    assert alike(("dose 'a'", "dose \u2018a\u2019", "dose \u201ca\u201d")) == [[0, 1, 2]]
    # A minus is a minus in every spelling, and no sign is none.
    assert alike(("-1 mg", "\u22121 mg", "1 mg", "a-", "a\u2013", "a")) == [[0, 1], [3, 4]]
    assert plain_spelling("1\u201312 mg") == plain_spelling("1-12 mg") != plain_spelling("112 mg")


def test_a_place_that_explains_nothing_is_tested_without_a_warning():
    nothing, less = np.zeros(32), -np.linspace(0.1, 0.2, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _test((np.ones(32), less, nothing)) == Difference(0.0, 1.0)


def test_spelling_says_how_many_rows():
    log = Log.from_arrays(
        state=[0] * 10, action=[0, 1] * 5, reward=[0.0] * 10, action_labels=["Stop", "stop "]
    )
    found = findings(log)["action-spelling"]
    assert found.share == 1.0
    assert found.places == [{"spellings": "'Stop', 'stop '", "rows": 10}]
    assert found.verdict_effect == "monitor"


def test_names_of_costs():
    for name in ("cost", "total_cost", "Cost (EUR)", "dailyCost", "PENALTY"):
        assert is_cost(name), name
    for name in ("reward", "costar", "-cost", "neg_cost", "profit"):
        assert not is_cost(name), name


def test_a_column_of_costs_with_its_sign(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("state,action,cost\n" + "a,b,2\na,c,1\n" * 20, encoding="utf-8")
    assert "cost-column" in findings(spibb.read_log(path, {"reward": "cost"}))
    path.write_text("state,action,cost\n" + "a,b,-2\na,c,-1\n" * 20, encoding="utf-8")
    assert "cost-column" not in findings(spibb.read_log(path, {"reward": "cost"}))


def test_ends_that_a_column_tells_are_not_assumed():
    log = sampled("maintenance", 50)
    columns = {name: getattr(log, name) for name in ("state", "action", "reward", "episode")}
    bare = Log.from_arrays(**columns)
    assert bare.are_ends_assumed
    assert findings(bare)["assumed-ends"].share > 0.5
    for name in ("terminated", "truncated"):
        told = Log.from_arrays(**columns, **{name: getattr(log, name)})
        assert not told.are_ends_assumed
        assert "assumed-ends" not in findings(told)


def test_records_that_end_where_processes_end():
    """A goal ends each episode: nothing is assumed that the rows do not show."""
    log = sampled("gridworld", 100)
    whole = np.bincount(log.episode, log.terminated) > 0
    kept = log.take(whole[log.episode])
    columns = {name: getattr(kept, name) for name in ("state", "action", "reward", "episode")}
    assert "assumed-ends" not in findings(Log.from_arrays(**columns))


def test_outcomes_that_state_and_action_decide_are_not_repeated():
    rng = np.random.default_rng(0)
    state = np.repeat(rng.integers(0, 4, 100), 5)
    columns = {"state": state, "action": rng.integers(0, 2, 500), "episode": np.arange(500) // 5}
    decided = Log.from_arrays(**columns, reward=(state > 1).astype(float))
    assert "repeated-outcome" not in findings(decided)
    joined = Log.from_arrays(**columns, reward=np.repeat(rng.integers(0, 2, 100), 5).astype(float))
    assert findings(joined)["repeated-outcome"].verdict_effect == "keep"


def independent_contexts(n_episodes, rng, **columns):
    n = 10 * n_episodes
    action = rng.integers(0, 2, n)
    return Log.from_arrays(
        state=rng.integers(0, 20, n), action=action, reward=rng.random(n) + 0.1 * action,
        episode=np.arange(n) // 10, **columns,
    )  # fmt: skip


def test_independent_contexts_in_order_are_no_mistake():
    rng = np.random.default_rng(1)
    steps = np.tile(np.arange(10), 500)
    assert not NAMED & set(findings(independent_contexts(500, rng, step=steps))) - {"assumed-ends"}
    asked = findings(independent_contexts(500, rng))["unrelated"]
    assert asked.verdict_effect == "none"  # a question: they look like shuffled rows


def test_static_groups_with_independent_contexts_are_in_order():
    """Rows of an episode share a group, and nothing else."""
    rng = np.random.default_rng(2)
    group = np.repeat(rng.integers(0, 3, 200), 10)
    log = Log.from_arrays(
        state=5 * group + rng.integers(0, 5, 2_000), action=rng.integers(0, 2, 2_000),
        reward=rng.random(2_000), episode=np.arange(2_000) // 10,
    )  # fmt: skip
    assert "row-order" not in findings(log)


def prudent(rng, n_episodes):
    """Return a log of a machine that the baseline spares: to run it pays, and ruins it late."""
    n = 40
    after, ending, reward = np.zeros((n, 2, n)), np.zeros((n, 2)), np.zeros((n, 2))
    for wear in range(n - 1):
        after[wear, 0, wear] = 0.7
        after[wear, 0, max(0, wear - 1)] += 0.3
        after[wear, 1, wear + 1] = 1.0
        reward[wear] = [0.5, 0.8]
    reward[-1], ending[-1] = -30.0, 1.0
    first = np.append(np.full(n - 1, 1.0 / (n - 1)), 0.0)
    process = TabularMDP(after, reward, 0.97, first, ending=ending)
    baseline = TabularPolicy(np.tile([0.8, 0.2], (n, 1)))
    return Log.sample(process, baseline, n_episodes=n_episodes, max_steps=60, rng=rng)


def test_a_prudent_baseline_has_no_costs():
    log = prudent(np.random.default_rng(4), 300)
    (tested,) = CHECKS["costs"].run(Evidence.of(log))
    assert tested.is_significant  # it prefers what pays less, for fear of what may be lost
    assert "costs" not in findings(log)


def test_a_change_of_the_process_in_few_long_records():
    rng = np.random.default_rng(5)
    n = 6_000
    state, action = rng.integers(0, 5, n), rng.integers(0, 2, n)
    columns = {"state": state, "action": action, "episode": np.arange(n) // 3_000}
    pay = rng.random(n) + state
    assert "process-drift" not in findings(Log.from_arrays(**columns, reward=pay))
    less = np.where(np.arange(n) < 3_000, 1.0, 0.3) * pay
    found = findings(Log.from_arrays(**columns, reward=less))["process-drift"]
    assert "rewards differ" in found.found
    assert found.places[0]["mean_reward_first_half"] > found.places[0]["mean_reward_second_half"]


@pytest.mark.parametrize("name", ["alignment", "process-drift"])
def test_logs_that_say_nothing_are_not_tested(name):
    log = Log.from_arrays(state=[0, 1], action=[0, 0], reward=[0.0, 1.0], next_state=[1, 0])
    (told,) = CHECKS[name].run(Evidence.of(log))
    assert told.p_value is None
    assert told.remark


def test_a_file_under_several_names(tmp_path):
    text = "state,action,reward\n" + "".join(f"s{k % 7},a{k % 3},{k % 5}\n" for k in range(200))
    for name in ("monday.csv", "tuesday.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"monday\.csv and .*tuesday\.csv hold the same bytes"):
        spibb.read_log(tmp_path)
    with pytest.raises(DataError, match="remove the copies"):
        spibb.read_log(str(tmp_path / "*.csv"))
    (tmp_path / "tuesday.csv").write_text(text.replace("s1,", "s2,"), encoding="utf-8")
    assert len(spibb.read_log(tmp_path)) == 400


def test_small_files_and_partitions_may_be_alike(tmp_path):
    for name in ("monday.csv", "tuesday.csv"):
        (tmp_path / name).write_text("state,action,reward\na,b,1\n", encoding="utf-8")
    assert len(spibb.read_log(tmp_path)) == 2
    text = "state,action,reward\n" + "a,b,1\n" * 300
    for ward in ("icu", "er"):
        (tmp_path / "by" / f"ward={ward}").mkdir(parents=True)
        (tmp_path / "by" / f"ward={ward}" / "rows.csv").write_text(text, encoding="utf-8")
    assert len(spibb.read_log(tmp_path / "by")) == 600


def test_outcomes_on_rows_that_end_nothing():
    """A column of ends that is false everywhere takes the outcomes out of the model."""
    n = 400
    reward = np.where(np.arange(n) % 8 == 7, np.arange(n) // 8 % 2, 0.0)
    columns = {"state": np.arange(n) % 8, "action": np.arange(n) % 3, "reward": reward,
               "episode": np.arange(n) // 8}  # fmt: skip
    found = findings(Log.from_arrays(**columns, terminated=np.zeros(n, dtype=bool)))
    assert found["unknown-next-state"].verdict_effect == "monitor"
    assert "100 % of all that was paid" in found["unknown-next-state"].effect
    spread = {**columns, "reward": np.ones(n)}
    found = findings(Log.from_arrays(**spread, terminated=np.zeros(n, dtype=bool)))
    assert found["unknown-next-state"].verdict_effect == "none"


def test_a_column_of_costs_that_is_read_as_such(tmp_path):
    path = tmp_path / "log.csv"
    rows = "".join(f"{k},0,{k % 2},{(-1) ** k * (k % 7)},1\n" for k in range(40))
    path.write_text("episode,state,action,cost,terminated\n" + rows)
    columns = {"reward": "cost"}
    # On both sides of 0, with a mean below: most of them may be refunds.
    assert "cost-column" in findings(spibb.read_log(path, columns))
    assert "cost-column" not in findings(spibb.read_log(path, columns, minimize=True))
