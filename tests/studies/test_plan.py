"""Plans as data: TOML and back, jobs that cover the runs, and what is refused."""

import hashlib
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spibb.algorithms.registry import ALGORITHMS
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.errors import SettingsError
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.registry import PLANS, STUDIES, add_study, find_plan, read_plan
from spibb.studies.running import run_study

SMOKE = PLANS["random-mdps-smoke"]
PUBLISHED = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*/plan.toml"))

numbers = st.floats(allow_nan=False, allow_infinity=False)
# What Python calls printable: no control characters, no separators but the space.
words = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=20)
values = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), words
)
names = st.one_of(st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True), words)
configs = st.dictionaries(
    names,
    st.one_of(values, st.lists(values, max_size=3), st.dictionaries(names, values)),
    max_size=4,
)
settings = st.builds(
    Setting, label=words, config=configs, family=words, parameter=words, value=numbers
)
plans = st.builds(
    RandomMDPPlan,
    name=words,
    seed=st.integers(0, 2**63 - 1),
    n_runs=st.integers(1, 10**6),
    runs_per_job=st.integers(1, 10**6),
    eta=st.lists(st.floats(0, 1), min_size=1, max_size=4, unique=True).map(tuple),
    trajectories=st.lists(st.integers(1, 10**6), min_size=1, max_size=4, unique=True).map(tuple),
    max_steps=st.integers(1, 10**6),
    second_goal=numbers,
    settings=st.lists(settings, min_size=1, max_size=3, unique_by=lambda part: part.label).map(
        tuple
    ),
    gamma=st.floats(0, 1),
)


@given(plans)
def test_a_plan_survives_toml(plan):
    again = RandomMDPPlan.from_toml(plan.to_toml())
    assert again == plan
    assert again.to_toml() == plan.to_toml()
    assert again.fingerprint == plan.fingerprint


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_shipped_plans(plan):
    assert read_plan(plan.to_toml()) == plan
    assert find_plan(plan.name) is plan
    assert plan.study in STUDIES


TABULAR = {name: plan for name, plan in PLANS.items() if plan.study != "helicopter"}


@pytest.mark.parametrize("plan", TABULAR.values(), ids=TABULAR)
def test_settings_of_shipped_plans(plan):
    """Every setting is one of an algorithm, back and forth."""
    for setting in read_plan(plan.to_toml()).settings:
        algorithm = setting.build()
        assert isinstance(algorithm, tuple(ALGORITHMS.values()))
        assert algorithm == type(algorithm).from_config(algorithm.to_config())


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.parent.name)
def test_published_plans_are_written_as_they_were(file):
    """Hence results of long ago still belong to them: their files carry a hash of the text."""
    text = file.read_text(encoding="utf-8")
    plan = read_plan(text)
    assert (plan.version1 or plan.to_toml()) == text
    assert plan.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_shipped_plans_have_fingerprints_of_their_own():
    assert len({plan.fingerprint for plan in PLANS.values()}) == len(PLANS)


@pytest.mark.parametrize("change", [
    {"seed": 2}, {"n_runs": 9}, {"runs_per_job": 3}, {"eta": (0.1,)}, {"trajectories": (10,)},
    {"max_steps": 49}, {"second_goal": -1.0}, {"settings": SMOKE.settings[1:]}, {"n_states": 49},
    {"n_actions": 3}, {"n_successors": 3}, {"gamma": 0.9},
], ids=lambda change: next(iter(change)))  # fmt: skip
def test_everything_counts_in_the_fingerprint(change):
    assert replace(SMOKE, **change).fingerprint != SMOKE.fingerprint


def test_the_fingerprint_is_the_same_in_another_process():
    code = "from spibb.studies.registry import PLANS as p; print(*(p[n].fingerprint for n in p))"
    for seed in ("1", "2"):  # which set the order of hashes
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout.split() == [plan.fingerprint for plan in PLANS.values()]


@given(st.integers(1, 300), st.integers(1, 300))
def test_jobs_cover_all_runs_once(n_runs, runs_per_job):
    jobs = replace(SMOKE, n_runs=n_runs, runs_per_job=runs_per_job).jobs()
    assert [run for _, first, last in jobs for run in range(first, last)] == list(range(n_runs))
    assert all(1 <= last - first <= runs_per_job for _, first, last in jobs)
    ids = [name for name, _, _ in jobs]
    assert ids == sorted(set(ids))


def test_more_jobs_than_a_folder_takes():
    many = find_plan("random-mdps-smoke", 2**31 - 1)
    with pytest.raises(
        SettingsError, match=r"42,949,673 jobs; expected at most 1,000,000\. To fix"
    ):
        many.jobs()


def test_a_job_keeps_its_id_when_runs_are_added():
    more = replace(SMOKE, n_runs=10 * SMOKE.n_runs)
    assert more.jobs()[: len(SMOKE.jobs())] == SMOKE.jobs()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 1", "sead = 1", r"an entry 'sead'; expected one of .*seed"),
        ("seed = 1\n", "", "the plan lacks an entry 'seed'"),
        ('label = "Basic RL"\n', "", "a setting lacks an entry 'label'"),
        ("[[settings]]", "[[others]]", "an entry 'others'"),
        ('label = "Basic RL"', 'lable = "Basic RL"', "lable"),
        ("eta = [0.1, 0.9]\n", "", "the plan has no eta; expected values of eta"),
        ("seed = 1", "seed = ", "the plan is not TOML"),
        ("n_runs = 8", "n_runs = 0", "n_runs is 0; expected at least 1"),
        ("n_runs = 8", 'n_runs = "8"', "n_runs is '8'; expected a whole number"),
        ("n_runs = 8", "n_runs = true", "n_runs is True; expected a whole number"),
        ("n_runs = 8", "n_runs = 8.0", "n_runs is 8.0; expected a whole number"),
        ("runs_per_job = 2", "runs_per_job = 0", "runs_per_job is 0; expected at least 1"),
        ("seed = 1", "seed = -1", "seed is -1; expected at least 0"),
        ("max_steps = 50", "max_steps = 1.5", r"max_steps is 1\.5; expected a whole number"),
        ("eta = [0.1, 0.9]", "eta = []", "the plan has no eta"),
        ("eta = [0.1, 0.9]", "eta = 0.5", r"eta is 0\.5; expected a list of values"),
        ("eta = [0.1, 0.9]", 'eta = "0.5"', "eta is '0.5'; expected a list of values"),
        ("eta = [0.1, 0.9]", 'eta = ["a"]', "one of eta is 'a'; expected a finite number"),
        ("eta = [0.1, 0.9]", "eta = [nan]", "one of eta is nan"),
        ("eta = [0.1, 0.9]", "eta = [0.1, 0.1]", r"eta is \[0\.1, 0\.1\]; expected each val"),
        ("eta = [0.1, 0.9]", "etas = [0.1, 0.9]", "an entry 'etas'; expected one of eta, "),
        ("trajectories = [10, 100]", "trajectories = [-5]", "is -5; expected at least 1"),
        ("trajectories = [10, 100]", "trajectories = [10.5]", "one of trajectories is 10.5"),
        ("trajectories = [10, 100]", "trajectories = [5000000000]", "expected at most 2147483647"),
        ("trajectories = [10, 100]", "trajectories = [10, 10]", "expected each value once"),
        ("eta = [0.1, 0.9]", "eta = [2.0]", r"eta is 2\.0; expected a strength in \[0, 1\]"),
        ("max_steps = 50", "max_steps = 0", "max_steps is 0; expected at least 1"),
        ("n_actions = 4", "n_actions = 1", "n_actions is 1; expected at least 2"),
        ("version = 2", "version = 3", "of version 3; expected 1 or 2.*newer spibb"),
        ("version = 2", 'version = "2"', "of version '2'; expected 1 or 2"),
        ("second_goal = 1.0", 'second_goal = "a"', "second_goal is 'a'; expected a finite number"),
        ("gamma = 0.95", f"gamma = {10**400}", "holds a number of hundreds of digits"),
        ("seed = 1", "seed = " + "9" * 5_000, "holds a number of hundreds of digits"),
        ("seed = 1", "seed = 0x" + "f" * 5_000, "holds a number of hundreds of digits"),
        ("seed = 1", "seed = " + "[" * 5_000 + "]" * 5_000, "tables and lists are too deep"),
        ("seed = 1", "seed" + ".a" * 5_000 + " = 1", "tables and lists are too deep"),
        ("value = 10", "value = 2020-01-01", "holds the date or time 2020-01-01"),
        ('config = {algorithm = "basic-rl"}', 'config = "basic-rl"', "the config of 'Basic RL' is"),
        ("gamma = 0.95", "gamma = 2", r"gamma is 2; expected a discount in \[0, 1\]"),
        ('name = "random-mdps-smoke"', "name = 3", "name is 3; expected a text"),
        ('label = "Basic RL"', "label = 3", "the label of a setting is 3; expected a text"),
        ("value = 10", 'value = "ten"', "the value of 'Pi_b.*' is 'ten'; expected a finite number"),
        ('label = "Pi_b-SPIBB, n_wedge=10"', 'label = "Basic RL"', "the same label"),
    ],
)
def test_a_wrong_plan_is_refused(old, new, message):
    text = SMOKE.to_toml()
    assert old in text
    with pytest.raises(SettingsError, match=message):
        RandomMDPPlan.from_toml(text.replace(old, new))


def test_settings_that_are_no_tables():
    head = SMOKE.to_toml().partition("[[settings]]")[0]
    for settings, message in (("3", "settings is 3; expected a list"), ("[3]", "a setting is 3")):
        with pytest.raises(SettingsError, match=message):
            RandomMDPPlan.from_toml(f"{head}settings = {settings}\n")


def test_a_whole_number_without_a_float():
    with pytest.raises(SettingsError, match=r"gamma is 10+; expected a finite number"):
        replace(SMOKE, gamma=10**400)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_states = 50", "n_states = 1", "a garnet of 1 states"),
        ("n_successors = 4", "n_successors = 99", "99 successors"),
        ("gamma = 0.95", "gamma = 1.0", r"gamma is 1\.0; expected a discount in \(0, 1\)"),
        ('"basic-rl"', '"basic"', "'Basic RL' cannot be built: no algorithm is called 'basic'"),
        ('{algorithm = "basic-rl"', '{algorithmm = "x"', "cannot be built: lacks 'algorithm'"),
        ('algorithm = "basic-rl"', "algorithm = 3", "'Basic RL' cannot be built"),
        ("n_wedge = 10", "n_wedge = -1", "cannot be built: n_wedge is -1; expected a number of"),
        ("n_wedge = 10", "n_wedg = 10", "cannot be built: .*n_wedg"),
        ("n_wedge = 10", 'n_wedge = "many"', "cannot be built"),
    ],
)
def test_a_plan_whose_jobs_could_not_run_is_refused_before_they_do(tmp_path, old, new, message):
    text = SMOKE.to_toml()
    assert old in text
    plan = read_plan(text.replace(old, new, 1))
    with pytest.raises(SettingsError, match=message):
        next(run_study(plan, tmp_path / "study", workers=1))
    assert not list(tmp_path.iterdir())


def test_a_plan_is_found_by_name_or_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(SMOKE.to_toml(), encoding="utf-8")
    assert find_plan(str(file)) == SMOKE
    assert find_plan("random-mdps-smoke", 3) == replace(SMOKE, n_runs=3)
    with pytest.raises(SettingsError, match=r"no plan is called 'random-mdp'.*use 'random-mdps'"):
        find_plan("random-mdp")
    with pytest.raises(SettingsError, match=r"cannot read the plan .*none\.toml"):
        find_plan(str(tmp_path / "none.toml"))
    for study, name in (('"x"', "'x'"), ('["x"]', r"\['x'\]"), ("3", "3")):
        text = SMOKE.to_toml().replace('study = "random-mdps"', f"study = {study}")
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match=f"no study is called {name}"):
            find_plan(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"cannot read the plan .*mine\.toml: .*utf-8"):
        find_plan(str(file))


def test_an_infinite_budget_survives():
    config = ApproxSoftSPIBB(epsilon=float("inf"), delta=1.0).to_config()
    setting = Setting("greedy", {name: part for name, part in config.items() if part is not None})
    again = read_plan(replace(SMOKE, settings=(setting,)).to_toml()).settings[0]
    assert asdict(again) == asdict(setting)
    assert again.build().epsilon == float("inf")


@dataclass(frozen=True, kw_only=True)
class Vase(Plan):
    """A plan of its own kind."""

    study: ClassVar[str] = "vases"
    glaze: tuple[str, ...] = factor("glaze", str, lambda x: x != "lead", "a glaze to eat from")
    heat: tuple[float, ...] = factor("°C", float)
    hours: tuple[int, ...] = factor("hours", int)
    clay: str = "red"


VASE = Vase(
    name="vase", seed=1, n_runs=2, runs_per_job=1, glaze=("ash", "salt"), hours=(8, 3, 5),
    settings=SMOKE.settings[:2],
)  # fmt: skip


def test_factors_are_what_has_values_in_the_order_of_the_cells():
    assert VASE.factors == {"glaze": ("ash", "salt"), "hours": (8, 3, 5)}
    assert VASE.shape == (2, 3, 2)
    assert VASE.labels == ["Basic RL", "Pi_b-SPIBB, n_wedge=10"]
    assert VASE.declared()["heat"].title == "°C"
    assert "heat" not in VASE.to_toml()
    assert Vase.from_toml(VASE.to_toml()) == VASE
    assert VASE.demand("glaze or heat", "hours") == ["glaze", "hours"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"glaze": ("lead",)}, "glaze is lead; expected a glaze to eat from"),
        ({"glaze": (3,)}, "one of glaze is 3; expected a text"),
        ({"heat": (float("inf"),)}, "one of heat is inf; expected a finite number"),
        ({"hours": (0,)}, "one of hours is 0; expected at least 1"),
        ({"hours": (True,)}, "one of hours is True; expected a whole number"),
        ({"hours": (3, 3)}, r"hours is \[3, 3\]; expected each value once"),
        ({"settings": ()}, "the plan has no settings"),
    ],
)
def test_values_that_a_factor_does_not_take(changes, message):
    with pytest.raises(SettingsError, match=message):
        replace(VASE, **changes)


def test_a_plan_has_one_of_the_factors_that_are_asked_for():
    with pytest.raises(SettingsError, match="the plan has no heat; expected values of heat"):
        VASE.demand("heat")
    with pytest.raises(SettingsError, match="the plan has glaze and hours; expected values of gla"):
        VASE.demand("glaze or hours")


def test_a_study_takes_no_name_of_another():
    known = STUDIES["random-mdps"]
    add_study(known)  # the same again is nothing new
    with pytest.raises(SettingsError, match="a study 'random-mdps' is there; expected a name of"):
        add_study(replace(known, plans=()))
    other = type("Other", (known.kind,), {"study": "other"})
    with pytest.raises(SettingsError, match="a plan 'random-mdps-smoke' is there"):
        add_study(replace(known, kind=other, plans=(replace(SMOKE, seed=3),)))
    assert "other" not in STUDIES
    assert STUDIES["random-mdps"] is known
