"""Results of other rules are never mixed with the present ones, and are still read and drawn."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from folded_study import CONFIG, KEEPING, PLAN, content, record

from spibb.cli.study_command import merge_folders
from spibb.errors import DataError, SettingsError
from spibb.runner.store import Store
from spibb.studies.finite.plans import PLANS as FINITE_PLANS
from spibb.studies.finite.plans import FinitePlan
from spibb.studies.gallery import draw_study
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.registry import PLANS, find_plan, read_plan
from spibb.studies.results.merging import merge_plans
from spibb.studies.running import rerun, run_study

RESULTS = Path(__file__).parents[2] / "docs/results"
OLD = replace(PLAN, rules=1)
FINITE = {plan.name: plan for plan in FINITE_PLANS}


def test_a_plan_says_its_rules_and_one_of_version_1_that_does_not_is_of_the_first():
    for plan, rules in ((PLAN, 2), (OLD, 1)):
        text = plan.to_toml()
        assert f"\nrules = {rules}\n" in text
        assert '\nunseen = "terminal"\n' in text
        assert RandomMDPPlan.from_toml(text) == plan
    text = (Path(__file__).parent / "data/version1/rows/1/plan.toml").read_text("utf-8")
    assert read_plan(text).rules == 2
    old = read_plan(text.replace("rules = 2\n", "").replace('unseen = "terminal"\n', ""))
    assert (old.rules, old.unseen) == (1, "terminal")
    assert OLD.fingerprint != PLAN.fingerprint


@pytest.mark.parametrize("name", ["random-mdps", "spibb-search", "complexity"])
def test_what_is_published_was_made_by_the_first_rules(name):
    assert read_plan((RESULTS / name / "plan.toml").read_text("utf-8")).rules == 1


@pytest.mark.parametrize("name", ["random-mdps", "spibb-search", "complexity"])
def test_settings_of_published_plans_can_still_be_built(name):
    """Some have a setting that is gone."""
    plan = find_plan(str(RESULTS / name / "plan.toml"))
    assert plan.rules == plan.present_rules
    assert len([setting.build() for setting in plan.settings]) > 3


def test_the_papers_plans_keep_its_treatment_of_what_was_never_tried():
    for name, plan in PLANS.items():
        if plan.study in ("helicopter", "risk", "representations", "generators"):  # have none
            continue
        expected = "average" if name in FINITE else "terminal"
        assert plan.unseen == expected, name
        assert plan.rules == plan.present_rules


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("unseen", "unknown", "unseen is 'unknown'; expected one of 'average', 'terminal'"),
        ("rules", -1, "rules is -1"),
        ("rules", 1.5, "rules is 1.5"),
    ],
)
def test_wrong_entries(field, value, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        replace(PLAN, **{field: value})


def test_a_study_of_other_rules_is_not_gone_on_with(tmp_path):
    out = record(OLD, tmp_path / "old", keeping=KEEPING)
    before = content(out)
    message = r"the study made-up in .*old follows rules 1; expected rules 2.* can still be read"
    with pytest.raises(SettingsError, match=message):
        list(run_study(PLAN, out, resume=True))
    with pytest.raises(SettingsError, match=message):
        list(run_study(OLD, out, resume=True))
    with pytest.raises(SettingsError, match=message):
        rerun(out, 0)
    assert content(out) == before


def test_a_plan_from_a_file_is_run_by_the_present_rules(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(OLD.to_toml(), encoding="utf-8")
    assert find_plan(str(file)) == PLAN


def test_old_studies_are_merged_with_their_like_only(tmp_path):
    first = record(OLD, tmp_path / "first", piece=(0, 40), keeping=KEEPING)
    last = record(OLD, tmp_path / "last", piece=(40, 80), keeping=KEEPING)
    merge_folders(tmp_path / "both", [first, last])
    assert read_plan(Store(tmp_path / "both").plan()) == OLD
    draw_study(tmp_path / "both")
    assert list((tmp_path / "both/figures").glob("*.svg"))
    other = replace(PLAN, name="new", settings=(Setting("HCPI", CONFIG),))
    with pytest.raises(DataError, match="do not draw the same: rules is 1 in made-up and 2 in new"):
        merge_plans([OLD, other])


def test_published_results_are_still_drawn(tmp_path):
    """The others are read by their own tests; this one is the quickest to draw."""
    name = "complexity"
    shutil.copytree(RESULTS / name, tmp_path / name, ignore=shutil.ignore_patterns("figures"))
    draw_study(tmp_path / name)
    drawn = {file.name for file in (tmp_path / name / "figures").glob("*.svg")}
    assert drawn == {file.name for file in (RESULTS / name / "figures").glob("*.svg")}


def test_published_rows_are_still_merged(tmp_path):
    merge_folders(tmp_path / "merged", [RESULTS / "helicopter"])
    found = read_plan(Store(tmp_path / "merged").plan())
    assert found.settings == read_plan(Store(RESULTS / "helicopter").plan()).settings


def test_settings_of_finite_plans_may_treat_the_unseen_in_their_own_way():
    plan = FINITE["costs"]
    assert {setting.unseen for setting in plan.settings} == {"average", "terminal"}
    assert FinitePlan.from_toml(plan.to_toml()) == plan
    assert "unseen" not in FINITE["gridworld"].to_toml().split("[[settings]]", 1)[1]
    text = plan.to_toml().replace('unseen = "terminal"', 'unseen = "other"', 1)
    with pytest.raises(SettingsError, match="unseen is 'other'"):
        FinitePlan.from_toml(text)
    for wrong in ("[]", "{a = 1}", "3"):
        text = plan.to_toml().replace('unseen = "terminal"', f"unseen = {wrong}", 1)
        with pytest.raises(SettingsError, match=r"unseen of 'Basic RL .*; expected a text"):
            FinitePlan.from_toml(text)
