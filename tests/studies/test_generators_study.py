"""The study on generators: its plans, a tiny run to the page, and statistics by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spibb import AutoSPIBB, PiLeqBSPIBB, evaluate
from spibb.errors import SettingsError
from spibb.posterior.risk import risk
from spibb.studies.generators.halves import draw_lot
from spibb.studies.generators.plan import PREDICTED, GeneratorsPlan
from spibb.studies.generators.statistics import LEAST_LOGS, Logs, rejected
from spibb.studies.generators.study import GENERATORS_STUDY, Drawn, _seed, run
from spibb.studies.proportions import clopper_pearson, lower_limit
from spibb.studies.publishing import publish
from spibb.studies.registry import PLANS, read_results
from spibb.studies.results.logs import FILE
from spibb.studies.running import run_study

PAGE = Path(__file__).parents[2] / "docs/risk-study.md"
PLAN = replace(
    PLANS["generators-development"], n_runs=2, runs_per_job=1, episodes=(30,),
    generator=("rare-losses-paid", "disease-stages"),
)  # fmt: skip
AUTO = f"Auto-SPIBB, caution={AutoSPIBB().caution:g}"


def run_all(folder, **options):
    return [progress.n_done for progress in run_study(PLAN, folder, workers=1, **options)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "run"
    assert run_all(folder) == [0, 1, 2]
    return folder


def test_plans_are_those_of_the_lot():
    for half, generators in draw_lot()._asdict().items():
        plan = PLANS[f"generators-{half}"]
        assert plan.generator == generators
        assert (plan.n_runs, plan.runs_per_job) == (300, 5)
        assert plan.episodes == (10, 30, 100, 300, 1_000)
        assert len(plan.settings) == 14
        assert GeneratorsPlan.from_toml(plan.to_toml()) == plan


def test_gains_and_predictions_are_those_of_the_algorithm(folder):
    _, results = read_results(folder)
    drawn = Drawn.of("disease-stages", PLAN.seed, 1)
    rng = np.random.default_rng(_seed("disease-stages", PLAN.seed, 1, 30))
    problem, truth = drawn.problem(30, rng), drawn.instance.process
    old = evaluate(truth, drawn.instance.baseline).performance
    for algorithm in (AutoSPIBB(), PiLeqBSPIBB(n_wedge=5), PiLeqBSPIBB(n_wedge=10)):
        policy = algorithm.improve(problem).policy
        place = [one.build() for one in PLAN.settings].index(algorithm)
        row = {name: column[1, 1, 0, place] for name, column in results.columns.items()}
        gain = (evaluate(truth, policy).performance - old) / drawn.scale
        assert row["score"] == pytest.approx(gain, abs=1e-6)
        if isinstance(algorithm, AutoSPIBB) and np.isfinite(row["mean"]):
            found = risk(problem, policy)
            expected = (found.mean, found.deviation, *found.interval())
            expected = [*(x / drawn.scale for x in expected), found.probability_of_harm]
            assert [row[name] for name in PREDICTED] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    fixed = [k for k, one in enumerate(PLAN.settings) if not isinstance(one.build(), AutoSPIBB)]
    assert np.isnan(results.columns["harm"][..., fixed]).all()


def test_runs_do_not_depend_on_their_grouping(folder):
    _, results = read_results(folder)
    alone = run(PLAN, [1])
    for name in set(alone) - {"seconds"}:
        assert np.array_equal(alone[name][0], results.columns[name][1], equal_nan=True)


def test_sizes_share_a_problem_and_have_logs_of_their_own():
    drawn = Drawn.of("disease-stages", PLAN.seed, 0)
    again = Drawn.of("disease-stages", PLAN.seed, 0)
    assert np.array_equal(drawn.instance.process.reward, again.instance.process.reward)
    seeds = [_seed("disease-stages", PLAN.seed, 0, n).generate_state(1)[0] for n in (10, 30)]
    assert seeds[0] != seeds[1]
    baseline = drawn.instance.baseline.probabilities
    assert drawn.gains(baseline[None]).tolist() == [0.0]


def test_it_resumes(folder):
    (folder / "parts/0000001.parquet").unlink()
    assert run_all(folder, resume=True) == [1, 2]


def test_it_is_published_and_again_from_what_was_published(folder, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / PAGE.name).write_text(PAGE.read_text("utf-8"), "utf-8")
    published = publish([folder], docs)
    assert published.places[docs / PAGE.name] == ["generators-development"]
    place = docs / "results/generators-development"
    assert sorted(path.name for path in place.iterdir()) == [
        "aggregates.parquet", "figures", FILE, "plan.toml",
    ]  # fmt: skip
    text = (docs / PAGE.name).read_text("utf-8")
    shown = "results/generators-development/figures/generators-development.svg"
    assert f"]({shown})" in text
    assert "Stages of a disease" in (docs / shown).read_text("utf-8")
    _, results = read_results(folder)
    auto = results.columns["score"][..., PLAN.labels.index(AUTO)]
    row = next(line for line in text.splitlines() if line.startswith("| Stages of a disease"))
    assert f" {auto[:, 1, 0].mean():.2f} / " in row
    publish([place], docs)
    assert (docs / PAGE.name).read_text("utf-8") == text


def test_wrong_plans_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="no generator is called 'garnet'"):
        replace(PLAN, generator=("garnet",))
    lame = replace(PLAN, settings=PLAN.settings[3:])
    with pytest.raises(SettingsError, match="lacks auto-spibb with its default caution"):
        list(run_study(lame, tmp_path / "lame"))
    assert not list(tmp_path.iterdir())


def made_up(score, harm, low=-1.0, high=1.0, visible=True):
    """Return logs of one generator and size: those of auto-spibb, and of a setting half as good."""
    score = np.asarray(score, dtype=np.float64)
    auto = PLAN.settings[PLAN.labels.index(AUTO)]
    settings = (auto, PLAN.settings[-1])
    plan = replace(PLAN, settings=settings, generator=PLAN.generator[:1], n_runs=len(score))
    columns = {"score": np.stack([score, score / 2.0], axis=1)}
    given = {"harm": harm, "low": low, "high": high, "is_visible": visible}
    columns |= {name: np.broadcast_to(x, score.shape) for name, x in given.items()}
    shape = (len(score), 1, 1, 2)
    columns = {
        name: np.broadcast_to(x if x.ndim == 2 else x[:, None], (len(score), 2)).reshape(shape)
        for name, x in columns.items()
    }
    return Logs(SimpleNamespace(plan=plan, columns=columns))


def test_bins_have_enough_logs_and_tell_too_much_harm():
    harm = np.repeat([0.0005, 0.005, 0.04], [150, 50, 100])
    score = np.ones(300)
    score[:3] = -1.0
    first, second = made_up(score, harm).bins()
    assert (first.n, first.n_worse, second.n, second.n_worse) == (150, 3, 150, 0)
    assert first.is_exceeded
    assert not second.is_exceeded
    assert second.least == 0.005
    assert sum(one.n for one in made_up(score[:99], harm[:99]).bins()) < LEAST_LOGS
    assert made_up(score, np.nan).bins() == []


def test_harm_where_the_damage_is_not_visible_is_apart():
    score = np.ones(200)
    score[:20] = -1.0
    logs = made_up(score, 0.01, visible=np.arange(200) >= 20)
    [shown] = logs.cells(logs.is_visible)
    [hidden] = logs.cells(~logs.is_visible)
    assert (shown.n_worse, shown.n, hidden.n_worse, hidden.n) == (0, 180, 20, 20)
    assert rejected([shown]) == []
    [(cell, p)] = rejected([hidden])
    assert cell == hidden
    assert p < 1e-6
    assert logs.tails[0, 0].tolist() == [-1.0, -0.5]


def test_coverage_and_what_is_reached_of_fixed_settings():
    logs = made_up(np.linspace(-0.5, 1.5, 201), np.where(np.arange(201) > 0, 0.1, np.nan), high=1.0)
    assert logs.covered() == (150, 200)
    assert logs.best_setting() == 1
    assert logs.best_of_cells().tolist() == [[pytest.approx(0.25)]]


def test_lower_limits_are_exact():
    from scipy.stats import binomtest

    for k, n in ((0, 200), (5, 100), (200, 200)):
        expected = binomtest(k, n, alternative="greater").proportion_ci(0.95).low
        assert lower_limit(k, n) == pytest.approx(expected)
        assert lower_limit(k, n) >= clopper_pearson(k, n)[0]


def test_the_study_is_registered():
    assert [plan.name for plan in GENERATORS_STUDY.plans] == [
        "generators-development", "generators-judgement",
    ]  # fmt: skip
