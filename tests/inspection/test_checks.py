"""The list of checks: what a check declares is what it yields."""

import itertools
import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import spibb
from spibb import Log, inspect
from spibb.cli.inspection_printing import print_inspection
from spibb.errors import SettingsError
from spibb.inspection import costs
from spibb.inspection.check import Check, run_check
from spibb.inspection.evidence import Evidence
from spibb.inspection.finding import SEVERITIES, VERDICT_EFFECTS, Finding, TestResult
from spibb.inspection.registry import CHECKS, add_check, family_level, levels, ordered_checks
from spibb.report.inspection import render_inspection
from spibb.representation.steps import Steps
from spibb.testing.confounded import PROCESSES

PAGE = (Path(__file__).parents[2] / "docs/inspect.md").read_text("utf-8")
LOG = Log.from_arrays(
    state=np.zeros(60, int),
    action=np.arange(60) % 2,
    reward=np.arange(60) % 7,
    episode=np.arange(60),
)
WORDS = {"found": "It is there.", "effect": "It matters.", "advice": "Look.", "share": 0.5}


@contextmanager
def added(check):
    """Add a check to the list for a while."""
    add_check(check)
    try:
        yield
    finally:
        del CHECKS[check.id]


def made(*results, **attributes):
    """Return a check that yields some results, whatever the log."""
    known = {"id": "mine", "title": "Is it mine?", "verdict_effect": "monitor", **attributes}
    return type("Mine", (Check,), {**known, "run": lambda *_: results})()


def test_levels_of_the_package():
    assert levels() == {
        "alignment": 0.0004, "memory": 0.0005, "persistent-rewards": 0.0003,
        "columns-of-actions": 0.0003, "columns-of-outcomes": 0.0002, "baseline": 0.001,
        "duplicates": 0.0005, "drift": 0.0016,
        "process-drift": 0.0014, "markov": 0.0015, "costs": 0.0023,
    }  # fmt: skip
    assert family_level() == pytest.approx(0.01)
    found = inspect(LOG)
    assert [one.check for one in found.tests] == list(levels())
    assert [one.level for one in found.tests] == list(levels().values())
    assert found.to_dict()["family_level"] == family_level()


def test_cheap_checks_run_first():
    costs = [one.cost for one in ordered_checks()]
    assert costs == sorted(costs, key=["rows", "permutations"].index)
    with added(made(cost="rows")):
        order = [one.id for one in ordered_checks()]
        assert order.index("duplicates") < order.index("mine") < order.index("drift")


def test_every_check_stands_in_the_documentation():
    table = set(
        re.findall(r"`([\w-]+)`", PAGE[PAGE.index("| check |") : PAGE.index("**Coverage**")])
    )
    for one in CHECKS.values():
        assert not [name for name in one.finding_ids or (one.id,) if name not in table]
    for effect in VERDICT_EFFECTS:
        assert f"`{effect}`" in PAGE


def allowed(severity, effect):
    """Whether effect and severity agree, by the table of the documentation."""
    return (
        effect
        in {
            "refused": ["refused"],
            "void": ["keep"],
            "biased": ["keep", "pilot", "monitor"],
            "weaker": ["keep", "pilot", "monitor", "none"],
        }[severity]
    )


@pytest.mark.parametrize(
    ("severity", "effect"), [*itertools.product(SEVERITIES, [*VERDICT_EFFECTS, "deploy", ""])]
)
def test_severity_and_effect_agree(severity, effect):
    if allowed(severity, effect):
        one = Finding("mine", severity, **WORDS, verdict_effect=effect)
        assert one.verdict_effect == effect
    else:
        with pytest.raises(SettingsError, match=f"is {severity!r} and has the verdict effect"):
            Finding("mine", severity, **WORDS, verdict_effect=effect)


def test_the_effect_follows_from_the_severity():
    effects = {one: Finding("mine", one, **WORDS).verdict_effect for one in SEVERITIES}
    assert effects == {"refused": "refused", "void": "keep", "biased": "monitor", "weaker": "none"}
    with pytest.raises(SettingsError, match="expected 'keep'"):
        replace(Finding("mine", "biased", **WORDS), severity="void")


def test_the_strictest_effect_is_that_of_the_inspection():
    assert inspect(LOG).verdict_effect == "none"
    pilot = Finding("mine", "weaker", **WORDS, verdict_effect="pilot")
    with added(made(pilot, verdict_effect="pilot")):
        found = inspect(LOG)
        assert found.verdict_effect == "pilot"
        plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert plain["verdict_effect"] == "pilot"
        assert [one["verdict_effect"] for one in plain["findings"]] == ["pilot"]
    assert inspect(LOG, reward_range=(0.0, 1.0)).verdict_effect == "refused"


def test_a_check_that_was_not_run(capsys):
    """It says so, with and without a level, wherever tests are listed."""
    told = "the log has no columns of measurements"
    for level in (None, 0.01):
        check = made(level=level)
        check.run = lambda _, check=check: [check.not_run(told)]
        with added(check):
            found = inspect(LOG)
            (one,) = (one for one in found.tests if one.check == "mine")
            assert (one.p_value, one.remark, one.level) == (None, told, level)
            assert found.family_level == pytest.approx(0.01 + (level or 0.0))
            share = "2 of 100" if level else "1 of 100"
            page = render_inspection(found)
            assert told in page
            assert share in page
            print_inspection(found, "table")
            shown = " ".join(capsys.readouterr().out.split())
            assert share in shown
            assert "not run" in shown


def result(p_value=0.5, level=None, check="mine"):
    return TestResult(check, "Is it mine?", p_value, "", level)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (made(level=0.01), "yields the test results: none"),
        (made(result(level=0.01), result(level=0.01), level=0.01), "yields the test results"),
        (made(result(level=0.02), level=0.01), "at level 0.02; expected one, by its own name"),
        (made(result(level=0.01, check="markov"), level=0.01), "'markov' at level 0.01"),
        (made(result()), "has a p-value and no level"),
        (made(Finding("yours", "biased", **WORDS)), "yields the finding 'yours'"),
        (made(Finding("mine", "void", **WORDS)), "verdict effect 'keep'; expected at most 'monit"),
        (
            made(result(0.02, 0.01), Finding("mine", "biased", **WORDS, p_value=0.02), level=0.01),
            "its test is not significant",
        ),
    ],
)
def test_a_check_yields_what_it_declares(check, told):
    with pytest.raises(SettingsError, match=re.escape(told)):
        run_check(check, Evidence.of(LOG))


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"id": "markov"}, "a check 'markov' is there"),
        ({"title": None}, "Mine has no title"),
        ({"level": 1.0}, "the level of the check 'mine' is 1.0"),
        ({"cost": "days"}, "the cost of the check 'mine' is 'days'"),
        ({"verdict_effect": "stop"}, "the verdict_effect of the check 'mine' is 'stop'"),
    ],
)
def test_a_check_that_cannot_be_added(attributes, told):
    before = dict(CHECKS)
    with pytest.raises(SettingsError, match=told):
        add_check(made(**attributes))
    assert before == CHECKS


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch):
    """Its checks are missing: that must not stay unseen, nor stop who can do without them."""

    def broken():
        raise SettingsError("the plugin 'mine' cannot be imported")

    monkeypatch.setattr("spibb.inspection.inspect.load_plugins", broken)
    found = inspect(LOG)
    last = found.tests[-1]
    assert (last.check, last.p_value, last.level) == ("plugins", None, None)
    assert "'mine' cannot be imported" in last.remark
    assert found.family_level == family_level()
    assert "cannot be imported" in render_inspection(found)


def test_evidence_of_a_log_with_copies_and_several_policies():
    rng = np.random.default_rng(0)
    columns = {"state": rng.integers(0, 30, 200), "action": rng.integers(0, 2, 200),
               "reward": rng.normal(size=200)}  # fmt: skip
    twice = {name: np.tile(values, 2) for name, values in columns.items()}
    log = Log.from_arrays(**twice, episode=np.arange(400) // 10)
    evidence = Evidence.of(log)
    assert set(evidence.multiplicities) == {2}
    assert len(evidence.log_without_copies) == 200
    assert evidence.own_log is log
    assert evidence.baseline_fit is None
    once = Evidence.of(Log.from_arrays(**columns, episode=np.arange(200) // 10))
    assert once.log_without_copies is once.log
    known = SimpleNamespace(**{one.id: one for one in CHECKS.values()})
    (tested, finding) = known.duplicates.run(evidence)
    assert tested.is_significant
    assert finding.severity == "void"


def test_evidence_of_the_policy_that_runs_today():
    n = 120
    baseline = spibb.TabularPolicy([[0.5, 0.5]])
    log = Log.from_arrays(
        state=np.zeros(n, int), action=np.arange(n) % 2, reward=np.zeros(n),
        episode=np.arange(n), policy=np.repeat(["old", "new"], n // 2),
    )  # fmt: skip
    evidence = Evidence.of(log, baseline={"new": baseline, "old": baseline}, improve_on="new")
    assert evidence.improved == "new"
    assert len(evidence.own_log) == n // 2
    assert evidence.own_n_sa.sum() == n // 2
    assert evidence.counts.n_sa.sum() == n
    assert evidence.preferences is evidence.baseline.probabilities


def test_values_of_many_states_are_those_of_the_next_steps(monkeypatch):
    steps = Steps.of(PROCESSES["queue"]().draw(20, 0))
    solved = costs._behaviour_values(steps, (6, 2), 0.8)
    monkeypatch.setattr(costs, "_MOST_SOLVED", 5)
    np.testing.assert_allclose(costs._behaviour_values(steps, (6, 2), 0.8), solved, rtol=1e-4)
