"""The helicopter study: plans, rows that depend on nothing else, scores, intervals, figures."""

import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from safetensors.numpy import load_file, save_file
from study_rows import keys, ordered

import spibb.envs
from spibb.cli.study_command import merge_folders
from spibb.deep.network import Network, first_parameters
from spibb.deep.policy import NetworkPolicy, PopulationPolicy
from spibb.deep.rules import RULES, ApproxSoftSPIBBDQN, DoubleDQN, PiBSPIBBDQN
from spibb.envs.flights import FlightReturns
from spibb.errors import DataError, SettingsError
from spibb.pictures import to_svg
from spibb.runner.jobs import Job, attempt
from spibb.runner.local import run_local
from spibb.runner.store import Store
from spibb.studies.claims import to_markdown
from spibb.studies.gallery import draw_study
from spibb.studies.helicopter.claims import find_plateau, findings
from spibb.studies.helicopter.figures import abscissa, draw_helicopter
from spibb.studies.helicopter.page import COSTS, best_table, helicopter_pages
from spibb.studies.helicopter.plan import (
    LONG,
    SHIPPED,
    SHORT,
    HelicopterPlan,
    RuleSetting,
    make_settings,
)
from spibb.studies.helicopter.plan import PLANS as ALL
from spibb.studies.helicopter.scores import (
    PUBLISHED,
    HelicopterResults,
    Scores,
    aggregate_scores,
    best_settings,
    weighted_statistic,
)
from spibb.studies.helicopter.study import draw_data, fly, member_seed, short_score, train
from spibb.studies.metrics import Measure, cvar
from spibb.studies.registry import find_plan, read_plan
from spibb.studies.results.aggregates import FILE, Aggregates
from spibb.studies.results.cell_aggregates import Kept
from spibb.studies.results.cells import to_rows
from spibb.studies.results.merging import merge_studies
from spibb.studies.results.recording import Recorder
from spibb.studies.running import compute_rows

PLANS = {plan.name: plan for plan in ALL}
PLAN = PLANS["helicopter"]
GRID = make_settings(
    ramdp_dqn=(1.0,), pi_b_spibb_dqn=(2.0,), pi_leq_b_spibb_dqn=(2.0,),
    approx_soft_spibb_dqn=(0.0, 0.5), exact_soft_spibb_dqn=(0.5,),
)  # fmt: skip
TINY = replace(
    PLAN, name="tiny", n_runs=4, runs_per_job=2, n_trainings=2, n_passes=4, transitions=(200, 300),
    n_steps=40, n_episodes=60, settings=GRID,
)  # fmt: skip
MEAN, CVAR = Measure(), Measure(0.1)
BASELINE = PLAN.helicopter.baseline()
SHIPPED_FILE = Path(spibb.envs.__file__).with_name("helicopter_baseline.safetensors")


@pytest.fixture(scope="module")
def rows():
    return compute_rows(TINY, 0, TINY.n_runs)


def made_up(plan, gains, n_runs=300, seed=0):
    """Scores of a plan whose settings gain what ``gains`` says, with luck of data sets."""
    rng = np.random.default_rng(seed)
    shape = (len(plan.transitions), len(plan.settings), n_runs)
    luck = np.repeat(rng.normal(0, 0.1, (*shape[:2], n_runs // plan.n_trainings)), 15, axis=2)
    long = 2.3 + np.array(gains)[None, :, None] + luck + rng.normal(0, 0.2, shape)
    short = long + rng.normal(0, 0.3, shape)
    return Scores(plan, np.arange(n_runs), np.stack([short, long]), np.zeros((2, *shape), bool))


def results_of(scores, folder=Path()):
    return HelicopterResults(scores.plan, aggregate_scores(scores), folder, scores)


def read_scores(folder):
    return HelicopterResults.of_folder(folder, read_plan(Store(folder).plan())).scores


@pytest.fixture(scope="module")
def scores():
    """The full plan with gains that peak inside every grid."""
    gains = []
    for setting in PLAN.settings:
        parameter = setting.parameter
        top = {"kappa": -0.5, "n_wedge": 0.8, "epsilon": 1.0}.get(parameter)
        off = np.log2(abscissa(parameter, setting.value)) + 0.2 if parameter else 0.0
        gains.append({"Baseline": 0.0, "Double-DQN": -3.0}.get(setting.label, 0.0))
        gains[-1] += 0.0 if top is None else top - 0.2 * off**2
    return made_up(PLAN, gains)


# The plan


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_survives_toml(name):
    plan = PLANS[name]
    again = HelicopterPlan.from_toml(plan.to_toml())
    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert again.evaluation == (SHORT, LONG)
    assert list(again.factors) == ["evaluation", "transitions"]
    assert "second_goal" not in plan.to_toml()


def test_the_plan_is_the_papers():
    assert PLAN.transitions == (1_000, 3_000, 6_000, 10_000)
    assert (PLAN.n_runs, PLAN.n_trainings, PLAN.n_passes) == (300, 15, 2_000)
    assert len(PLAN.jobs()) == 20
    assert {PLAN.data_set(run) for run in range(15, 30)} == {1}
    rules = {setting.config["rule"] for setting in PLAN.settings}
    assert rules == {"baseline", *RULES} - {"dqn"}
    for places in PLAN.families.values():
        assert len(places) == 1 or len(places) >= 3


def test_infinite_values_survive_toml():
    rule = ApproxSoftSPIBBDQN(epsilon=np.inf)
    plan = replace(TINY, settings=(RuleSetting("inf", rule.to_config()),))
    assert HelicopterPlan.from_toml(plan.to_toml()).settings[0].build() == rule


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_episodes": 10}, "n_episodes is 10; expected at least n_steps = 40"),
        ({"n_passes": 0}, "n_passes is 0; expected at least 1"),
        ({"transitions": (0,)}, "one of transitions is 0; expected at least 1"),
        ({"transitions": ()}, "the plan has no transitions"),
        ({"baseline": ("shipped",)}, "1 baselines and 0 digests; .* with --baseline"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"width": 0.0}, "width is 0.0"),
        ({"settings": (RuleSetting("x", {"rule": "soft-dqn"}),)}, "no rule is called 'soft-dqn'"),
        ({"settings": (RuleSetting("x", {"rule": "ramdp-dqn", "kappa": -1}),)}, "kappa is -1"),
        ({"settings": (RuleSetting("x", {"rule": "baseline", "a b": 1}),)}, "no setting 'a b'"),
    ],
)
def test_a_wrong_plan_is_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        replace(TINY, **changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study = ", "the plan is not TOML"),
        ('study = "helicopter"', "the plan lacks an entry 'name'"),
        (TINY.to_toml().replace('{rule = "double-dqn"}', '"double-dqn"'), "expected a table"),
        (TINY.to_toml().replace("width", "breadth"), "breadth"),
        (TINY.to_toml().replace("[[s", 'evaluation = ["long"]\n[[s', 1), "an entry 'evaluation'"),
    ],
)
def test_a_wrong_file_is_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        HelicopterPlan.from_toml(text)


# Acting


def made_policies(data, rules, params, sizes):
    return [
        BASELINE
        if rule is None
        else NetworkPolicy(Network.from_flat(flat, sizes), rule, BASELINE, data.pseudo_counts)
        for rule, flat in zip(rules, params, strict=True)
    ]


def test_a_population_acts_as_its_members_alone():
    (data, *_) = draw_data(TINY, BASELINE, 0)
    helicopter = TINY.helicopter
    sizes = (4, 32, 128, 32, 9)
    rules = TINY.rules_of_settings
    params = first_parameters(range(len(rules)), sizes)
    policies = made_policies(data, rules, params, sizes)
    act = PopulationPolicy(policies, is_over=helicopter.is_over).action_probabilities
    rng = np.random.default_rng(0)
    # States of the data set and new ones near by, all of them in flight.
    states = data.state[rng.integers(200, size=(len(rules), 7))]
    states = states + rng.normal(0, 0.02, states.shape).astype(np.float32)
    states = np.clip(states, [0.01, 0.01, -0.9, -0.9], [0.99, 0.99, 0.9, 0.9]).astype(np.float32)
    found = act(states)
    assert found.dtype == np.float32
    for k, policy in enumerate(policies):
        np.testing.assert_array_equal(found[k], policy.action_probabilities(states[k]))
    # Bit for bit the same in any company.
    np.testing.assert_array_equal(act(states[:, :3]), found[:, :3])


def test_tensors_act_as_arrays_do():
    torch = pytest.importorskip("torch")
    (data, *_) = draw_data(TINY, BASELINE, 0)
    helicopter, sizes = TINY.helicopter, (4, 32, 128, 32, 9)
    rules = TINY.rules_of_settings
    params = first_parameters(range(len(rules)), sizes)
    states = np.stack([data.state[:20]] * len(rules))
    policies = made_policies(data, rules, params, sizes)
    act = PopulationPolicy(policies, is_over=helicopter.is_over).action_probabilities
    arrays, tensors = act(states), act(torch.as_tensor(states))
    np.testing.assert_allclose(tensors.numpy(), arrays, atol=2e-5)


def test_nobody_counts_for_those_that_have_landed():
    helicopter = TINY.helicopter
    states = np.array([[0.5, 0.5, 0, 0], [1.0, 0.5, 0, 0], [0.5, 0.5, 0, -1.0]], np.float32)
    assert helicopter.is_over(states).tolist() == [False, True, True]


# Scores of a run


def test_the_short_score_stops_after_the_steps():
    total = np.array([[1.0, 3.0, 5.0, 9.0], [2.0, 2.0, 2.0, 7.0]])
    steps = np.array([[2, 2, 2, 2], [4, 1, 1, 1]])
    returns = FlightReturns(total, np.ones_like(steps), steps)
    score, n_episodes = short_score(returns, 4)
    assert n_episodes.tolist() == [2, 1]  # exactly four steps are enough
    assert score.tolist() == [2.0, 2.0]
    score, n_episodes = short_score(returns, 5)
    assert n_episodes.tolist() == [3, 2]
    assert score.tolist() == [3.0, 2.0]


def test_the_short_score_has_the_law_of_flights_one_after_the_other():
    helicopter = PLAN.helicopter
    baseline = helicopter.baseline()
    kept = {"device": None}
    single = helicopter.run_episodes(
        baseline.action_probabilities, np.arange(40), n_episodes=150, **kept
    )
    ours, n_ours = short_score(single, 150)
    theirs = helicopter.run_episodes(
        baseline.action_probabilities, np.arange(100, 140), n_steps=150, **kept
    )
    gap = ours.mean() - theirs.mean.mean()
    noise = np.sqrt(ours.var() / 40 + theirs.mean.var() / 40)
    assert abs(gap) < 4 * noise
    assert abs(n_ours.mean() - theirs.n_episodes.mean()) < 2.5


def test_a_budget_of_nothing_scores_as_the_baseline(rows):
    table = rows.to_pandas()
    index = ["run", "evaluation", "transitions"]
    wide = table.pivot(index=index, columns="setting", values="score")
    np.testing.assert_array_equal(wide["Baseline"], wide["Approx-Soft-SPIBB-DQN, epsilon=0"])
    assert (wide["Baseline"] != wide["Double-DQN"]).any()


def test_a_job_tells_how_far_it_is():
    heard = []
    answer = attempt(compute_rows, (TINY, 0, 4), heard.append)
    assert not answer.reason
    assert heard == sorted(heard)
    # Training is told at its end at least, then every flight, of each data set.
    n_sets = len({TINY.data_set(run) for run in range(4)})
    assert len(heard) >= n_sets * (1 + len(TINY.transitions))
    assert heard[-1] == 1.0


def test_the_baseline_alone_needs_no_training():
    plan = replace(TINY, settings=GRID[:1])
    alone = compute_rows(plan, 0, 2).to_pandas()
    assert not alone["diverged"].any()
    assert alone["score"].between(-1, 10).all()


def test_a_training_that_diverged_scores_the_least():
    data, runs = draw_data(TINY, BASELINE, 0), [0, 1]
    population = train(TINY, data, runs)
    lost = np.full(len(population), -1)
    lost[3] = 5
    params = population.params.copy()
    params[3] = np.nan
    population = replace(
        population, state=replace(population.state, params=params, diverged_at=lost)
    )
    first = fly(TINY, data[0], 0, runs, population)
    assert {name: column.shape for name, column in first.items()} == {
        name: (len(runs), 2, len(TINY.settings)) for name in ("score", "n_episodes", "diverged")
    }
    # The baseline comes before the members of a run.
    assert np.argwhere(first["diverged"]).tolist() == [[0, 0, 4], [0, 1, 4]]
    assert first["score"][0, :, 4].tolist() == [-1.0, -1.0]
    assert np.isfinite(first["score"]).all()


# Rows


def test_rows_hold_every_run_and_both_scores(rows):
    assert rows.column_names == [
        "run", "evaluation", "transitions", "setting", "score", "n_episodes", "diverged",
    ]  # fmt: skip
    expected = product(range(4), (SHORT, LONG), TINY.transitions, TINY.labels)
    found = zip(*(rows[key].to_pylist() for key in keys(TINY)), strict=True)
    assert sorted(found) == sorted(expected)
    table = rows.to_pandas()
    assert (table["n_episodes"][table["evaluation"] == LONG] == TINY.n_episodes).all()
    assert table["n_episodes"][table["evaluation"] == SHORT].between(1, TINY.n_steps).all()


def test_rows_do_not_depend_on_the_grouping(rows):
    apart = [compute_rows(TINY, run, run + 1) for run in range(TINY.n_runs)]
    assert ordered(pa.concat_tables(apart)) == ordered(rows)


def test_rows_do_not_depend_on_other_settings_and_sizes(rows):
    few = replace(TINY, transitions=TINY.transitions[1:], settings=(GRID[0], GRID[3], GRID[-1]))
    table, alone = (part.to_pandas() for part in (rows, compute_rows(few, 0, 2)))
    is_same = (table["run"] < 2) & (table["transitions"] == 300)
    same = table[is_same & table["setting"].isin(few.labels)].copy()
    by = ["run", "evaluation", "setting"]
    for frame in (same, alone):
        frame[by[1:]] = frame[by[1:]].astype(str)
    np.testing.assert_array_equal(
        same.sort_values(by)["score"].to_numpy(), alone.sort_values(by)["score"].to_numpy()
    )


def test_other_processes_give_the_same_rows(rows):
    jobs = [Job(name, name, (TINY, first, last)) for name, first, last in TINY.jobs()]
    found = pa.concat_tables([table for _, table in run_local(compute_rows, jobs, workers=2)])
    assert ordered(found) == ordered(rows)


def test_seeds_differ_by_run_and_size():
    seeds = {member_seed(TINY, run, size) for run in range(20) for size in TINY.transitions}
    assert len(seeds) == 40
    assert all(0 <= seed < 2**64 for seed in seeds)


# The study's folder


@pytest.fixture
def folder(tmp_path, rows):
    """A study of two pieces, merged."""
    for number, (name, first, last) in enumerate(TINY.jobs()):
        with Recorder.open(
            TINY, tmp_path / f"piece{number}", resume=False, piece=(first, last)
        ) as recorder:
            is_meant = (np.array(rows["run"]) >= first) & (np.array(rows["run"]) < last)
            recorder.write(name, rows.filter(pa.array(is_meant)))
    merge_studies(
        tmp_path / "study", [tmp_path / "piece1", tmp_path / "piece0"],
        read_plan=HelicopterPlan.from_toml,
    )  # fmt: skip
    return tmp_path / "study"


def test_pieces_merge_and_aggregate(folder, rows):
    plan = HelicopterPlan.from_toml(Store(folder).plan())
    assert plan == TINY
    aggregates = HelicopterResults.of_folder(folder, plan).aggregates
    assert (aggregates.n == 4).all()
    kept = Kept.of_table(rows, TINY)
    assert (kept.n == 4).all()
    long = rows.to_pandas().query(
        "evaluation == 'long' and transitions == 300 and setting == 'Double-DQN'"
    )
    assert aggregates.mean.value[1, 1, 1] == pytest.approx(long["score"].mean(), abs=1e-6)
    assert np.isnan(aggregates.mean.low).all()  # two data sets tell nothing about data sets
    aggregates.write(folder / FILE, plan)
    again = Aggregates.read(folder / FILE, plan)
    np.testing.assert_array_equal(again.mean.value, aggregates.mean.value)
    np.testing.assert_array_equal(again.worse, aggregates.worse)
    assert np.isfinite(aggregates.worse).all()


def test_plans_of_other_settings_are_merged(tmp_path, rows):
    parts = {"a": GRID[:3], "b": GRID[3:]}
    for name, settings in parts.items():
        plan = replace(TINY, name=name, settings=settings)
        labels = pa.array(plan.labels)
        part = rows.set_column(3, "setting", rows["setting"].cast(pa.string()))
        part = part.filter(pa.compute.is_in(part["setting"], value_set=labels))
        with Store.open(tmp_path / name, plan.to_toml(), resume=False) as store:
            store.write("0000000", part)
    expected = Scores.of_table(rows, TINY)
    merge_folders(tmp_path / "both", [tmp_path / "b", tmp_path / "a"])
    merged = read_scores(tmp_path / "both")
    assert merged.plan == replace(TINY, name="a + b", settings=GRID)
    np.testing.assert_array_equal(merged.values, expected.values)
    np.testing.assert_array_equal(merged.diverged, expected.diverged)
    draw_study(tmp_path / "both")
    assert (tmp_path / "both" / "figures" / "helicopter-300.svg").exists()


def test_a_study_of_many_runs_keeps_its_rows(tmp_path):
    """The bootstrap needs data sets whole: the worst runs would not do."""
    plan = replace(TINY, n_runs=2_100, runs_per_job=2_100, transitions=(200,), settings=GRID[:2])
    shape = (plan.n_runs, *plan.shape)
    columns = {
        "score": np.ones(shape, np.float32), "n_episodes": np.ones(shape, np.int32),
        "diverged": np.zeros(shape, bool),
    }  # fmt: skip
    table = to_rows(plan, range(plan.n_runs), columns)
    with Recorder.open(plan, tmp_path / "study", resume=False) as recorder:
        recorder.write("0000000", table)
    results = HelicopterResults.of_folder(tmp_path / "study", plan)
    assert (results.aggregates.n == plan.n_runs).all()
    assert results.scores is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diverged": None}, "no column 'diverged' .*0000000.parquet"),
        ({"diverged": "yes"}, "the column 'diverged' of the results holds string.*expected flags"),
        ({"n_episodes": None}, "no column 'n_episodes'"),
        ({"evaluation": 1.0}, "'evaluation' of the results holds double.*expected labels"),
        ({"evaluation": "wide"}, "the results hold the evaluation 'wide', which the plan has not"),
        ({"score": "high"}, "the column 'score' of the results holds string"),
        ({"score": float("nan")}, "a score is not a number"),
        ({"setting": None}, "no column 'setting'"),
        ({"run": 4}, "the results hold the run 4 .*0000000.parquet.*expected runs from 0 to 3"),
    ],
)
def test_rows_of_something_else_are_refused(tmp_path, rows, changes, message):
    for name, value in changes.items():
        rows = rows.drop_columns(name)
        if value is not None:
            rows = rows.append_column(name, pa.array([value] * len(rows)))
    with Store.open(tmp_path / "study", TINY.to_toml(), resume=False) as store:
        store.write("0000000", rows)
    with pytest.raises(DataError, match=message):
        read_scores(tmp_path / "study")


def test_an_empty_folder_is_refused(tmp_path):
    with Store.open(tmp_path / "new", TINY.to_toml(), resume=False):
        pass
    with pytest.raises(DataError, match="no results yet"):
        read_scores(tmp_path / "new")


def test_a_run_that_is_there_twice_is_refused(rows):
    with pytest.raises(DataError, match="there twice"):
        Scores.of_table(pa.concat_tables([rows, rows]), TINY)


# Statistics


def test_weights_count_as_copies():
    rng = np.random.default_rng(0)
    found = rng.normal(size=60)
    weights = rng.integers(0, 4, (5, 60))
    for share in (None, 0.1, 0.25, 1.0):
        expected = [
            np.repeat(found, row).mean() if share is None else cvar(np.repeat(found, row), share)
            for row in weights
        ]
        np.testing.assert_allclose(weighted_statistic(found, weights, share), expected)


def test_intervals_are_those_of_data_sets():
    plan = replace(PLAN, settings=GRID[:2], transitions=(1_000,))
    rng = np.random.default_rng(1)
    luck = np.repeat(rng.normal(0, 1.0, (2, 1, 2, 20)), 15, axis=-1)
    values = luck + rng.normal(0, 0.01, luck.shape)
    found = Scores(plan, np.arange(300), values, np.zeros(values.shape, bool))
    mean = found.estimate(MEAN, (1, 0, 0))
    # Twenty data sets, not 300 runs: the half width is about 2 sigma / sqrt(20).
    half = 1.96 * luck[1, 0, 0].std() / np.sqrt(20)
    assert (mean.high - mean.low) / 2 == pytest.approx(half, rel=0.15)
    gap = found.difference(MEAN, (1, 0, 0), (1, 0, 0))
    assert gap == (0.0, 0.0, 0.0)
    tail = found.difference(CVAR, (1, 0, 0), (1, 0, 0), MEAN)
    assert tail.value == pytest.approx(cvar(values[1, 0, 0], 0.1) - values[1, 0, 0].mean())
    assert tail.high < 0


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    plan = replace(PLAN, settings=GRID[:1], transitions=(1_000,))
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        luck = np.repeat(rng.normal(0, 1.0, (2, 1, 1, 20)), 15, axis=-1)
        values = luck + rng.normal(0, 1.0, luck.shape)
        one = Scores(plan, np.arange(300), values, np.zeros(values.shape, bool))
        mean = one.estimate(MEAN, (0, 0, 0))
        hits += mean.low <= 0 <= mean.high
    # Percentile intervals of 20 clusters hold about 93 %; 300 "independent" runs would, 55 %.
    assert hits >= 85


def test_missing_runs_are_left_out(scores):
    values = scores.values.copy()
    values[:, 0, 3, 10:] = np.nan
    results = results_of(Scores(PLAN, scores.runs, values, scores.diverged))
    part = results.aggregates
    assert part.n[0, 0, 3] == 10
    assert part.mean.value[1, 0, 3] == pytest.approx(scores.values[1, 0, 3, :10].mean(), abs=1e-6)
    names = {one.setting.name for one in best_settings(results) if one.size == 1_000}
    assert "Baseline" in names


# Figures, table, claims, page


def test_hyper_parameters_share_an_axis():
    assert abscissa("kappa", 20.0) == 2.0
    assert abscissa("n_wedge", 16.0) == 0.25


def test_figures_are_drawn(scores):
    drawings = draw_helicopter(results_of(scores))
    assert [drawing.stem for drawing in drawings] == [
        "helicopter-domain", "helicopter-by-size",
        *(f"helicopter-{size}" for size in PLAN.transitions),
    ]  # fmt: skip
    for drawing in drawings:
        assert ElementTree.fromstring(to_svg(drawing.figure)).tag.endswith("svg")
    by_parameter = drawings[2].figure
    assert len(by_parameter.axes) == 4
    n_families = sum(len(places) > 1 for places in PLAN.families.values())
    assert len(by_parameter.axes[0].lines) == n_families + 1  # and the baseline
    assert "Double-DQN (mean / 10 %-CVaR)" in drawings[2].caption
    # What is far below is left out, and said so: of panels with such points only.
    titles = [axes.get_title() for axes in by_parameter.axes]
    assert titles[0].startswith("mean, short: 1,000 steps a run (the paper's), axis starts at ")
    for axes, title in zip(by_parameter.axes, titles, strict=True):
        lowest = min(np.nanmin(line.get_ydata()) for line in axes.lines)
        assert ("axis starts" in title) == (lowest < axes.get_ylim()[0])
    last = drawings[1].figure.axes
    assert last[3].get_title() == "10 %-CVaR, long: 1,000 episodes a run"
    assert [mark.get_text() for mark in last[3].get_xticklabels()] == [
        "1,000", "3,000", "6,000", "10,000",
    ]  # fmt: skip
    lines = {line.get_label(): line.get_linestyle() for line in last[3].lines}
    assert [name for name, line in lines.items() if line == ":"] == ["baseline"]


def test_shading_alone_is_no_reason_to_say_where_the_axis_starts():
    settings = make_settings(approx_soft_spibb_dqn=(0.5, 1.0))
    plan = replace(PLAN, transitions=(1_000,), settings=settings)
    found = results_of(made_up(plan, [0.0, -9.0, 0.5, 0.5]))
    found.aggregates.mean.low[:, :, 2] = -3.0  # a very wide interval
    panels = draw_helicopter(found)[1].figure.axes
    assert panels[0].get_ylim()[0] > 0
    assert panels[0].get_title() == "mean, short: 1,000 steps a run (the paper's)"


def test_values_without_a_place_on_the_axis():
    """Neither warnings nor a mark for each of a thousand powers of two."""
    odd = {"pi_b_spibb_dqn": (0.0, 1e-308, 1.0, 1e100), "approx_soft_spibb_dqn": (0.0, 0.5, 1e308)}
    plan = replace(PLAN, name=r"$\frac$", transitions=(1_000,), settings=make_settings(**odd))
    scores = made_up(plan, [0.0] * len(plan.settings))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawing = draw_helicopter(results_of(scores))[1]
        assert r"$\frac$, 300 runs" in to_svg(drawing.figure)
        findings(results_of(scores))
    axes = drawing.figure.axes[2]
    assert [line.get_xdata().tolist() for line in axes.lines[:2]] == [[1.0], [0.5]]
    assert [mark.get_text() for mark in axes.get_xticklabels()] == ["1/2", "1"]
    assert "Beyond the axis: Pi_b-SPIBB-DQN, n_wedge=0; " in drawing.caption
    wide = replace(plan, settings=make_settings(approx_soft_spibb_dqn=(2e-6, 5e5)))
    axes = draw_helicopter(results_of(made_up(wide, [0.0] * 4)))[1].figure.axes[2]
    assert 5 < len(axes.get_xticks()) <= 12


def test_figures_of_a_small_study(rows):
    drawings = draw_helicopter(results_of(Scores.of_table(rows, TINY)))
    assert len(drawings) == 4
    for drawing in drawings:
        to_svg(drawing.figure)


def test_the_table_stands_beside_the_published_numbers(scores):
    rows = best_settings(results_of(scores))
    assert len(rows) == len(PLAN.families) * len(PLAN.transitions)
    by_key = {(one.size, one.setting.name): one for one in rows}
    soft = by_key[10_000, "Approx-Soft-SPIBB-DQN"]
    assert soft.is_inside
    assert soft.published == (3.61, 2.69)
    assert by_key[1_000, "RaMDP-DQN"].published is None
    assert by_key[3_000, "Double-DQN"].estimates[MEAN, LONG].value == pytest.approx(-0.7, abs=0.1)
    text = best_table(rows)
    assert len(text.splitlines()) == len(rows) + 2
    assert "| 10,000 | Approx-Soft-SPIBB-DQN | epsilon = 1 | 3.61 | 2.69 |" in text.replace(
        f"epsilon = {soft.setting.value:g}", "epsilon = 1"
    )


def test_the_published_numbers_name_algorithms_of_the_plan():
    names = set(PLAN.families)
    assert set(PUBLISHED) == set(PLAN.transitions)
    assert all(set(row) <= names for row in PUBLISHED.values())


def test_a_best_value_at_the_end_of_its_grid_is_marked(scores):
    gains = [setting.value if setting.parameter == "epsilon" else 0.0 for setting in PLAN.settings]
    rows = best_settings(results_of(made_up(PLAN, gains)))
    text = best_table([one for one in rows if one.setting.name == "Exact-Soft-SPIBB-DQN"])
    assert text.count(" * |") == len(PLAN.transitions)


def test_claims_follow_the_scores(scores):
    claims = {one.claim: one for one in findings(results_of(scores))}
    verdicts = {text: claim.verdict for text, claim in claims.items()}
    assert verdicts["Approx-Soft-SPIBB-DQN outperforms the baseline in mean and 10 %-CVaR"] == (
        "confirmed"
    )
    assert verdicts["DQN without safety is far below the baseline"] == "confirmed"
    assert verdicts["(ours) Exact-Soft-SPIBB-DQN is better than the approximate one"] != "confirmed"
    assert verdicts["Approx-Soft-SPIBB-DQN is better than Pi_b-SPIBB-DQN in mean and CVaR"] in (
        "confirmed", "in part",
    )  # fmt: skip
    assert not any("time" in text for text in claims)
    below = claims["DQN without safety is far below the baseline"].numbers
    assert below.startswith("Baseline - Double-DQN:<br>mean, short: 1,000: +")
    tail = claims["The 10 %-CVaR of Pi_b-SPIBB-DQN is above the baseline's mean"].numbers
    assert tail.startswith("10 %-CVaR of Pi_b-SPIBB-DQN - mean of Baseline:<br>short: 1,000: ")
    few = findings(results_of(made_up(PLAN, [0.0] * len(PLAN.settings), n_runs=30)))
    assert few[0].verdict == "too few data sets to tell"


def test_the_claim_on_time_needs_times(scores):
    slow = {"pi-b-spibb-dqn": 3e6, "approx-soft-spibb-dqn": 2e6, "exact-soft-spibb-dqn": 3e6}
    claim = findings(results_of(scores), slow)[-1]
    assert (claim.verdict, claim.numbers) == ("confirmed", "approximate: +50 %; exact: +0 %")


def test_a_plateau_is_where_most_of_the_gain_is():
    found = find_plateau([0.5, 1.0, 2.0, 4.0], [0.0, 1.0, 0.9, 0.0], part=0.5)
    assert found.low == pytest.approx(2**-0.5)
    assert found.high == pytest.approx(2 * 2 ** (0.4 / 0.9))
    assert not found.is_open
    assert str(find_plateau([1.0, 2.0], [1.0, 1.0])) == "at least 2.0"
    assert find_plateau([1.0, 2.0], [-1.0, -2.0]).factor == 1.0


def test_the_page_tells_facts_table_claims_and_costs(scores, tmp_path):
    costs = {
        "machine": "a GPU", "predicted hours": 7, "steps": {"trainings": 3},
        "speeds": {"pi-b-spibb-dqn": 2e6, "approx-soft-spibb-dqn": 1e6},
    }  # fmt: skip
    (tmp_path / COSTS).write_text(json.dumps(costs))
    results = results_of(scores, tmp_path)
    (page,) = helicopter_pages([results]).values()
    assert set(page) == {"facts", "table", "claims", "costs"}
    assert f"fingerprint `{PLAN.fingerprint}`" in page["facts"]
    assert "300 runs (20 data sets x 15 trainings) of 29 settings" in page["facts"]
    assert "0 trainings diverged" in page["facts"]
    assert page["table"] == best_table(best_settings(results))
    assert page["claims"] == to_markdown(findings(results, costs["speeds"]))
    assert page["costs"] == (
        "* machine: a GPU\n* steps: trainings 3\n"
        "* pi-b-spibb-dqn: 2.00 million gradient steps a second\n"
        "* approx-soft-spibb-dqn: 1.00 million gradient steps a second"
    )
    assert helicopter_pages([]) == {}


@pytest.mark.parametrize(
    "text", ["{", "[3]", '{"speeds": 3}', '{"speeds": {"ramdp-dqn": "fast"}}', "\udc80"]
)
def test_costs_that_are_none(scores, tmp_path, text):
    (tmp_path / COSTS).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataError, match=r"cannot read .*costs\.json: .*expected a JSON object"):
        helicopter_pages([results_of(scores, tmp_path)])


def test_a_training_that_diverged_counts_once(scores):
    diverged = scores.diverged.copy()
    diverged[:, 0, 1, 7] = True  # by both evaluations
    (page,) = helicopter_pages(
        [results_of(Scores(PLAN, scores.runs, scores.values, diverged))]
    ).values()
    assert "1 trainings diverged" in page["facts"]


def test_claims_need_rows(scores):
    with pytest.raises(DataError, match="has statistics only; expected rows"):
        findings(HelicopterResults(PLAN, aggregate_scores(scores), Path("there")))


def test_rules_act_by_their_own_step():
    assert [setting.build() for setting in GRID[:2]] == [None, DoubleDQN()]
    assert GRID[3].build() == PiBSPIBBDQN(n_wedge=2.0)


# Other baselines


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A plan over the shipped baseline and a warmer one, with its rows."""
    file = tmp_path_factory.mktemp("baselines") / "warm.safetensors"
    save_file(load_file(SHIPPED_FILE), file, {"temperature": json.dumps(2 * BASELINE.temperature)})
    few = replace(TINY, settings=(*GRID[:2], GRID[5]))
    plan = few.with_baselines([SHIPPED, str(file)])
    return plan, compute_rows(plan, 0, plan.n_runs)


def test_baselines_are_a_factor(compared, rows):
    plan, found = compared
    assert list(plan.factors) == ["baseline", "evaluation", "transitions"]
    assert plan.digests[0] == ""
    assert len(plan.digests[1]) == 16
    assert HelicopterPlan.from_toml(plan.to_toml()) == plan
    assert plan.fingerprint != replace(plan, digests=("", "0" * 16)).fingerprint
    table = found.to_pandas()
    assert set(table["baseline"]) == set(plan.baseline)
    # The shipped one has the rows that it has alone.
    is_shipped = pa.compute.equal(found["baseline"].cast(pa.string()), SHIPPED)
    alone = rows.filter(
        pa.compute.is_in(rows["setting"].cast(pa.string()), value_set=pa.array(plan.labels))
    )
    assert ordered(found.filter(is_shipped).drop_columns("baseline")) == ordered(alone)
    means = table.groupby(["baseline", "setting"], observed=True)["score"].mean()
    assert means[plan.baseline[1], "Baseline"] != means[SHIPPED, "Baseline"]


def test_results_over_each_baseline_are_drawn_and_tabled(compared, tmp_path):
    plan, found = compared
    with Store.open(tmp_path / "study", plan.to_toml(), resume=False) as store:
        store.write("0000000", found)
    results = HelicopterResults.of_folder(tmp_path / "study", plan)
    every = results.by_baseline()
    assert list(every) == [SHIPPED, "warm"]
    for place, one in enumerate(every.values()):
        np.testing.assert_array_equal(one.n_runs(), results.aggregates.n[place])
        cell = {"evaluation": LONG, "transitions": 300}
        np.testing.assert_array_equal(
            one.of(MEAN, "Double-DQN", **cell),
            results.of(MEAN, "Double-DQN", baseline=plan.baseline[place], **cell),
        )
        where = one.where("Double-DQN", **cell)
        np.testing.assert_array_equal(
            one.scores.of(where), results.scores.values[(place, *where[1:])]
        )
    stems = [drawing.stem for drawing in draw_helicopter(results)]
    assert stems == [f"helicopter-by-size-{name}" for name in every]
    named = replace(results, plan=replace(plan, name="helicopter-baselines"))
    (page,) = helicopter_pages([named]).values()
    assert set(page) == {"baselines"}
    assert "| 300 transitions | shipped (4 runs) | warm (4 runs) |" in page["baselines"]
    assert "| difference of means, on 2 sizes | shipped | warm |" in page["baselines"]
    # Two data sets are too few for any interval.
    told = "| Baseline - Double-DQN | 0 above, 0 below | 0 above, 0 below |"
    assert told in page["baselines"]


def test_a_baseline_that_is_not_what_it_was(compared, tmp_path):
    plan, _ = compared
    file = tmp_path / "other.safetensors"
    file.write_bytes(SHIPPED_FILE.read_bytes())
    mine = TINY.with_baselines([str(file)])
    file.write_bytes(Path(plan.baseline[1]).read_bytes())
    with pytest.raises(SettingsError, match=r"other\.safetensors is not the one .*SHA-256 begins"):
        mine.baselines()
    with pytest.raises(SettingsError, match=r"cannot read the baseline .*absent.*or 'shipped'"):
        TINY.with_baselines([str(tmp_path / "absent")])
    (tmp_path / "more").mkdir()
    twin = tmp_path / "more" / file.name
    twin.write_bytes(file.read_bytes())
    with pytest.raises(SettingsError, match="called other, other; expected files of different na"):
        TINY.with_baselines([str(file), str(twin)])
    found = find_plan("helicopter-baselines", baselines=["shipped", str(file)])
    assert (found.baseline, found.name) == (("shipped", str(file)), "helicopter-baselines")
    with pytest.raises(SettingsError, match="random-mdps has no baselines in files"):
        find_plan("random-mdps", baselines=["shipped"])
