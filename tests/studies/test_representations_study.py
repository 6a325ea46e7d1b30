"""The study on representations: its lot, a tiny run to the page, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spibb import AutoSPIBB
from spibb.assessment.verdict import Decision
from spibb.errors import DataError, SettingsError
from spibb.studies.plan import Plan
from spibb.studies.proportions import clopper_pearson, excess_p, holm
from spibb.studies.publishing import publish
from spibb.studies.registry import PLANS, find_plan, read_results
from spibb.studies.representations.halves import draw_lot
from spibb.studies.representations.plan import RepresentationsPlan
from spibb.studies.representations.results import KEPT, code_of, is_deploy
from spibb.studies.representations.simulator import simulate_log
from spibb.studies.representations.study import REPRESENTATIONS, judge_log, run
from spibb.studies.results.logs import FILE
from spibb.studies.running import run_study

PAGE = Path(__file__).parents[2] / "docs/representations.md"
PLAN = replace(
    PLANS["representations-development"], n_runs=2, n_draws=20, size=("small",),
    states=("machine/smoothed-hours", "machine/gauge", "shop/taste"),
)  # fmt: skip


def run_all(plan: Plan, folder: Path, **options) -> list[int]:
    return [progress.n_done for progress in run_study(plan, folder, **options)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "run"
    assert run_all(PLAN, folder, workers=1) == [0, 1, 2]
    return folder


def test_the_lot_is_that_of_its_seed():
    names = ["glucose", "irrigation", "machine", "plant", "queue", "shop", "tutor", "vitals"]
    drawn = [names[place] for place in np.random.default_rng(31).permutation(8)]
    assert drawn == [*draw_lot().development, *draw_lot().judgement]
    assert draw_lot().development == ("queue", "machine", "irrigation", "shop")
    assert draw_lot().judgement == ("plant", "glucose", "tutor", "vitals")
    for half, simulators in draw_lot()._asdict().items():
        plan = PLANS[f"representations-{half}"]
        assert (plan.n_runs, plan.seed, len(plan.size)) == (200, 31, 3)
        assert set(simulators) == {states.partition("/")[0] for states in plan.states}


def test_it_survives_toml():
    for plan in REPRESENTATIONS.plans:
        assert RepresentationsPlan.from_toml(plan.to_toml()) == plan


def test_every_decision_has_a_code_that_never_changes():
    assert [code_of(one) for one in Decision] == [1, 2, 3, 4, 5]
    found = is_deploy([KEPT, *map(code_of, Decision)])
    assert found.tolist() == [False, *(one.startswith("Deploy") for one in Decision)]


def test_representations_see_the_same_raw_log(monkeypatch):
    seen = []

    def record(*arguments):
        log, columns = simulate_log(*arguments)
        seen.append(columns)
        return log, columns

    monkeypatch.setattr("spibb.studies.representations.study.simulate_log", record)
    found = [judge_log(PLAN, 0, name, "small") for name in PLAN.states[:2]]
    for name in seen[0]:
        assert np.array_equal(seen[0][name], seen[1][name], equal_nan=True)
    adequate, gauge = found
    assert adequate.gain > 0.0 > gauge.gain
    assert is_deploy([one.verdicts["before"] for one in found]).all()
    assert not is_deploy(gauge.verdicts["columns"])
    assert 0.0 < adequate.seconds < 60.0


def test_runs_do_not_depend_on_their_grouping(folder):
    _, results = read_results(folder)
    alone = run(PLAN, [1])
    for name in set(alone) - {"seconds"}:
        assert np.array_equal(alone[name][0], results.columns[name][1], equal_nan=True)


def test_the_score_is_the_true_gain_of_what_is_deployed(folder):
    _, results = read_results(folder)
    gained = np.where(results.deploys, results.columns["gain"], 0.0)
    assert np.allclose(results.columns["score"], gained)
    worse = (results.columns["score"] < 0.0).mean(axis=0)
    assert np.allclose(results.aggregates.worse, worse)


def test_it_resumes(folder, tmp_path):
    part = folder / "parts/0000001.parquet"
    before, logs = part.read_bytes(), (folder / FILE).read_bytes()
    part.unlink()
    assert run_all(PLAN, folder, workers=1, resume=True) == [1, 2]
    assert len(part.read_bytes()) == pytest.approx(len(before), rel=0.1)
    assert len((folder / FILE).read_bytes()) == pytest.approx(len(logs), rel=0.1)


def test_it_is_published_and_again_from_what_was_published(folder, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / PAGE.name).write_text(PAGE.read_text("utf-8"), "utf-8")
    published = publish([folder], docs)
    places = ["trace", "cells", "rates", "tests", "power", "seconds", "figure"]
    assert published.places[docs / PAGE.name] == [
        "lot", *(f"development-{name}" for name in places)
    ]  # fmt: skip
    place = docs / "results/representations-development"
    assert sorted(path.name for path in place.iterdir()) == [
        "aggregates.parquet", "figures", FILE, "plan.toml",
    ]  # fmt: skip
    text = (docs / PAGE.name).read_text("utf-8")
    shown = "results/representations-development/figures/representations-development.svg"
    assert f"]({shown})" in text
    svg = (docs / shown).read_text("utf-8")
    assert "smallest share of the claim left in finer states" in svg
    assert "| development | queue, machine, irrigation, shop |" in text
    assert "| judgement | plant, glucose, tutor, vitals |" in text
    row = next(
        line for line in text.splitlines() if "current gauge in bins" in line and " → " in line
    )
    assert "20: 2 (2) → " in row
    assert row.endswith(" → 0 (0) |")
    publish([place], docs)
    assert (docs / PAGE.name).read_text("utf-8") == text


def test_codes_that_contradict_the_scores_are_refused(folder, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = tmp_path / "published"
    place.mkdir()
    for name in ("plan.toml", FILE):
        (place / name).write_bytes((folder / name).read_bytes())
    table = pq.read_table(place / FILE)
    codes = pa.array(np.full(len(table), code_of(Decision.KEEP), np.int16))
    where = table.column_names.index("verdict")
    pq.write_table(table.set_column(where, "verdict", codes), place / FILE)
    with pytest.raises(DataError, match="verdicts and scores contradict each other"):
        read_results(place)


def test_wrong_plans_are_refused(tmp_path):
    refused = r"no simulator and representation is called 'machine/gouge'.*use 'machine/gauge'"
    with pytest.raises(SettingsError, match=refused):
        replace(PLAN, states=("machine/gouge",))
    with pytest.raises(SettingsError, match=r"size is huge.*one of small, middle, large"):
        replace(PLAN, size=("huge",))
    lame = replace(PLAN, settings=PLAN.settings[:2])
    with pytest.raises(SettingsError, match="each of before, labels, columns once"):
        run_all(lame, tmp_path / "lame")
    first, *rest = PLAN.settings
    odd = replace(PLAN, settings=(replace(first, rule="colums"), *rest))
    with pytest.raises(SettingsError, match=r"no rule is called 'colums'.*use 'columns'"):
        run_all(odd, tmp_path / "odd")
    bold = replace(first, config=AutoSPIBB(caution=1.0).to_config())
    with pytest.raises(SettingsError, match="auto-spibb with the same options for each rule"):
        run_all(replace(PLAN, settings=(bold, *rest)), tmp_path / "bold")
    assert not list(tmp_path.iterdir())
    with pytest.raises(SettingsError, match="representations-judgement"):
        find_plan("representations-judgment")


def test_proportions_are_exact():
    from scipy.stats import binomtest

    for k, n in ((0, 200), (3, 200), (200, 200), (0, 0)):
        low, high = clopper_pearson(k, n)
        expected = binomtest(k, n).proportion_ci() if n else (0.0, 1.0)
        assert (low, high) == pytest.approx(tuple(expected))
        if n:
            expected = binomtest(k, n, 0.02, alternative="greater").pvalue
            assert excess_p(k, n, 0.02) == pytest.approx(expected)
    assert holm([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]).size == 0
