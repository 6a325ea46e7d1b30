"""The study on fixed processes: every plan at a small scale, and rows checked by hand."""

import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from study_rows import keys, ordered

from spibb.algorithms.adv_soft_spibb import AdvApproxSoftSPIBB
from spibb.algorithms.penalised import RaMDP
from spibb.data.log import Log
from spibb.envs import (
    GridWorld,
    Inventory,
    Maintenance,
    Queue,
    SysAdmin,
    WetChicken,
    from_gymnasium,
)
from spibb.errors import SettingsError
from spibb.mdp.evaluation import evaluate
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.pictures import to_svg
from spibb.runner.store import Store
from spibb.studies.finite.page import draw_finite
from spibb.studies.finite.plans import PLANS as ALL
from spibb.studies.finite.plans import FinitePlan, FiniteSetting
from spibb.studies.finite.processes import PROCESSES, make_baseline, softened_optimum, true_process
from spibb.studies.results.aggregates import Results, aggregate
from spibb.studies.results.cell_aggregates import Kept
from spibb.studies.running import compute_rows, run_study
from spibb.uncertainty.error_functions import HoeffdingQ

PLANS = {plan.name: plan for plan in ALL}
TOY_TEXT = ("frozen-lake", "cliff-walking", "taxi")


def shrunk(name, **changes):
    """A shipped plan with two runs of two logs, and the first two settings of each family."""
    plan, seen, kept = PLANS[name], {}, []
    for setting in plan.settings:
        seen[setting.name] = seen.get(setting.name, 0) + 1
        if seen[setting.name] <= 2:
            kept.append(setting)
    cut = {plan.strength: 1, plan.size: 2}
    small = {name: plan.factors[name][:n] for name, n in cut.items()}
    return replace(plan, **small | {"n_runs": 2, "settings": tuple(kept)} | changes)


def results_of(table, plan):
    return Results(plan, aggregate(Kept.of_table(table, plan), plan), Path())


def run_and_read(plan, out, **options):
    for _ in run_study(plan, out, **options):
        pass
    return Store(out).read()


def rows_of(table, labels):
    mask = pa.compute.is_in(table["setting"].cast(pa.string()), pa.array(labels))
    return table.filter(mask)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_shipped_plan_survives_toml(plan):
    text = plan.to_toml()
    again = FinitePlan.from_toml(text)
    assert again == plan
    assert again.to_toml() == text
    assert again.fingerprint == plan.fingerprint
    assert "n_successors" not in text
    for setting in again.settings:
        assert setting.build().to_config()["algorithm"] == setting.config["algorithm"]


def test_what_the_plans_vary():
    families = {
        name: {(setting.family, setting.parameter) for setting in PLANS[name].settings}
        for name in ("wet-chicken", "gridworld")
    }
    assert families["wet-chicken"] == families["gridworld"]
    assert {parameter for _, parameter in families["gridworld"]} == {
        "", "epsilon", "n_wedge", "kappa", "xi", "delta",
    }  # fmt: skip
    assert PLANS["toy-text"].process == TOY_TEXT
    varied = {name: list(plan.factors) for name, plan in PLANS.items()}
    assert varied == {
        "wet-chicken": ["process", "share", "steps"],
        "gridworld": ["process", "temperature", "trajectories"],
        "toy-text": ["process", "eta", "trajectories"],
        "costs": ["process", "share", "trajectories"],
    }
    assert FinitePlan.declared()["steps"].title == "steps of one trajectory"
    assert len({plan.fingerprint for plan in PLANS.values()}) == len(PLANS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["gridworld"]', '["maze"]', "no process is called 'maze'; expected one of wet-chicken"),
        ('["gridworld"]', '["queue"]', "baselines of queue have no temperature; expected .* share"),
        ('["gridworld"]', '"gridworld"', "process is 'gridworld'; expected a list of values"),
        ('process = ["gridworld"]\n', "", "the plan has no process; expected values of process"),
        ("seed = 2023", "sead = 2023", "an entry 'sead'; expected one of .*seed"),
        ("seed = 2023", "seed = ", "the plan is not TOML"),
        ("seed = 2023", "seed = 2023\nn_states = 50", "an entry 'n_states'"),
        ("trajectories = ", "trajectory = ", "'trajectory'; expected one of .*trajectories"),
        ("trajectories = [", "steps = [5]\ntrajectories = [", "has trajectories and steps"),
        ("temperature = ", "eta = ", "baselines of gridworld have no eta"),
        ("temperature = [0.1, 0.02]", "temperature = [0.1, 0.0]", r"temperature is 0\.0; expected"),
        ("max_steps = 50", "max_steps = 0", "max_steps is 0; expected at least 1"),
    ],
)
def test_a_wrong_plan_is_refused(old, new, message):
    text = PLANS["gridworld"].to_toml()
    assert old in text
    with pytest.raises(SettingsError, match=message):
        FinitePlan.from_toml(text.replace(old, new, 1))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_from_end_to_end(name, tmp_path):
    plan = shrunk(name)
    table = run_and_read(plan, tmp_path / "study", workers=1)
    assert table.column_names == [*keys(plan), "score"]
    found = set(zip(*(table[key].to_pylist() for key in keys(plan)), strict=True))
    assert len(found) == table.num_rows == 2 * 2 * len(plan.process) * len(plan.settings)
    scores = table["score"].to_numpy()
    assert scores.max() <= 1 + 1e-6
    assert (np.abs(scores) > 1e-3).any()
    assert FinitePlan.from_toml(Store(tmp_path / "study").plan()) == plan

    drawings = draw_finite(results_of(table, plan))
    stems = [drawing.stem for drawing in drawings]
    assert len(set(stems)) == len(stems)
    strength = f"{plan.factors[plan.strength][0]:g}"
    for process in plan.process:
        assert {f"{process}-performance-{strength}", f"{process}-epsilon-search"} <= set(stems)
    for drawing in drawings:
        svg = to_svg(drawing.figure)
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert f"{name}, 2 runs" in svg
        assert drawing.caption


def test_the_curves_show_one_setting_of_each_algorithm():
    plan = PLANS["wet-chicken"]
    plan = replace(plan, n_runs=1, steps=plan.steps[:2])
    results = results_of(compute_rows(plan, 0, 1), plan)
    found = {x.stem: x.figure for x in draw_finite(results)}
    left = found["wet-chicken-performance-0.5"].axes[0]
    labels = [line.get_label() for line in left.lines if not line.get_label().startswith("_")]
    assert len(labels) == 14
    assert labels[-1] == "baseline"
    assert {"Basic RL", "RaMDP, κ = 2", "DUIPI, ξ = 0.5", "Lower-Approx-Soft-SPIBB, ε = 1"} <= set(
        labels
    )
    assert left.get_xlabel() == "steps of one trajectory"
    # Six families, mean and CVaR; the three baselines would make too many panels for one figure.
    assert len([x for x in found["wet-chicken-epsilon-search-0.1"].axes if x.get_title()]) == 12
    assert len([x for x in found["wet-chicken-kappa-search"].axes if x.get_title()]) == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_the_grouping_of_runs_changes_no_row(workers, tmp_path):
    plan = shrunk("wet-chicken", n_runs=3, runs_per_job=1)
    found = run_and_read(plan, tmp_path / "study", workers=workers)
    assert ordered(found) == ordered(compute_rows(plan, 0, 3))


@pytest.mark.parametrize("name", ["wet-chicken", "gridworld"])
def test_settings_that_need_logs_change_no_other_row(name):
    """Without them only counts are drawn, from the same randomness."""
    plan = shrunk(name)
    without = [part for part in plan.settings if "Adv" not in part.label]
    assert len(without) < len(plan.settings)
    found = compute_rows(replace(plan, settings=tuple(without)), 0, 2)
    labels = [part.label for part in without]
    assert ordered(found) == ordered(rows_of(compute_rows(plan, 0, 2), labels))


def test_other_processes_change_no_row():
    plan = shrunk("toy-text")
    found = compute_rows(replace(plan, process=("frozen-lake",)), 1, 2)
    company = compute_rows(replace(plan, process=("cliff-walking", "frozen-lake")), 0, 2)
    company = company.filter(pa.compute.equal(company["run"], 1))
    lake = company["process"].cast(pa.string())
    assert ordered(found) == ordered(company.filter(pa.compute.equal(lake, "frozen-lake")))


def test_the_score_by_hand():
    """One trajectory of Wet Chicken from its id; returns are averaged over pieces of 1,000."""
    algorithms = {
        "ramdp": RaMDP(kappa=1.0),
        "adv": AdvApproxSoftSPIBB(epsilon=2.0, delta=1.0, error=HoeffdingQ()),
    }
    settings = []
    for label, part in algorithms.items():
        config = {name: value for name, value in part.to_config().items() if value is not None}
        settings.append(FiniteSetting(label, config))
    run, shares, sizes = 5, (0.2, 0.5), (300, 2_500)
    plan = replace(PLANS["wet-chicken"], share=shares, steps=sizes, settings=tuple(settings))
    found = compute_rows(plan, run, run + 1).to_pylist()

    truth = WetChicken().to_mdp(0.95)
    key = zlib.crc32(b"wet-chicken")
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run], spawn_key=(key,)))
    expected = []
    for share in shares:
        baseline = WetChicken().baseline(share)
        low, high = evaluate(truth, baseline).performance, solve(truth).performance
        for size in sizes:
            log = Log.sample(truth, baseline, n_episodes=1, max_steps=size, rng=rng)
            rows = np.arange(size)
            pieces = Log.from_arrays(
                state=log.state, action=log.action, reward=log.reward, next_state=log.next_state,
                terminated=np.zeros(size, bool), episode=rows // 1_000, n_states=25, n_actions=5,
                truncated=(rows % 1_000 == 999) | (rows == size - 1),
            )  # fmt: skip
            for label, algorithm in algorithms.items():
                data = pieces if label == "adv" else log
                policy = algorithm.improve(data, baseline=baseline, gamma=0.95).policy
                score = (evaluate(truth, policy).performance - low) / (high - low)
                expected.append({
                    "run": run, "process": "wet-chicken", "share": share, "steps": size,
                    "setting": label,
                    "score": pytest.approx(score, rel=1e-5, abs=1e-6),
                })  # fmt: skip
    assert found == expected
    assert all(abs(row["score"]) > 1e-3 for row in found)


@pytest.mark.parametrize("process", TOY_TEXT)
@pytest.mark.parametrize("eta", [0.0, 0.5, 0.9, 1.0])
def test_a_softened_optimum_has_the_strength_asked_for(process, eta):
    truth, best = true_process(process, 0.95).truth, true_process(process, 0.95).best
    uniform = TabularPolicy.uniform(truth.n_states, truth.n_actions)
    worst = evaluate(truth, uniform).performance
    found = evaluate(truth, make_baseline(process, 0.95, eta)).performance
    assert (found - worst) / (best - worst) == pytest.approx(eta, abs=1e-5)


def test_strengths_out_of_range_are_refused():
    with pytest.raises(SettingsError, match=r"eta is 1\.5; expected a strength in \[0, 1\]"):
        softened_optimum(GridWorld().to_mdp(), 1.5)


def test_the_frozen_lake_pays_when_the_goal_is_entered():
    """Same values as the adapter's process, but logs hold rewards that were really paid."""
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    lake = true_process("frozen-lake", 0.95).truth
    adapted = from_gymnasium(FrozenLakeEnv(), 0.95)
    policy = make_baseline("frozen-lake", 0.95, 0.5)
    np.testing.assert_allclose(evaluate(lake, policy).v, evaluate(adapted, policy).v, atol=1e-12)
    log = Log.sample(lake, policy, n_episodes=200, rng=np.random.default_rng(0))
    assert set(log.reward.tolist()) == {0.0, 1.0}
    assert log.terminated[log.reward == 1.0].all()
    expected = Log.sample(adapted, policy, n_episodes=200, rng=np.random.default_rng(0)).reward
    assert 0 < expected.max() < 1


def test_the_baselines_of_the_others_are_their_own():
    costs = {"queue": Queue, "inventory": Inventory, "maintenance": Maintenance}
    costs |= {"sysadmin": SysAdmin}
    assert set(PROCESSES) == {"wet-chicken", "gridworld", *costs, *TOY_TEXT}
    for name, kind in costs.items():
        np.testing.assert_array_equal(
            make_baseline(name, 0.95, 0.3).probabilities, kind().baseline(0.3).probabilities
        )
    np.testing.assert_array_equal(
        make_baseline("wet-chicken", 0.95, 0.2).probabilities,
        WetChicken().baseline(epsilon=0.2).probabilities,
    )
    np.testing.assert_array_equal(
        make_baseline("gridworld", 0.95, 0.1).probabilities,
        GridWorld().baseline(temperature=0.1).probabilities,
    )


def test_settings_are_the_same_on_every_process():
    plan = PLANS["toy-text"]
    assert not any(name in label for label in plan.labels for name in ("Taxi", "taxi"))
    assert plan.shape == (3, 2, 6, len(plan.settings))
