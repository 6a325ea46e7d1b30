"""One policy on one problem: every question is answered, and answered once."""

import json
from collections import Counter
from dataclasses import astuple
from importlib import resources

import numpy as np
import pytest
from typer.testing import CliRunner

import spibb
from spibb.assessment import assessment as module
from spibb.assessment.verdict import Decision
from spibb.cli.app import app
from spibb.errors import SettingsError
from spibb.inspection import inspect as inspecting
from spibb.posterior.model import PosteriorModel
from spibb.posterior.settings import ModelSettings
from spibb.report.folder import write_result
from spibb.report.summary import result_summary
from spibb.testing.checks import random_problem


@pytest.fixture(scope="module")
def problem():
    _, baseline, log = random_problem(3, n_episodes=60)
    return spibb.Problem.of(log, baseline=baseline, gamma=0.9, reward_range=(-5, 5))


@pytest.fixture(scope="module")
def result(problem):
    return spibb.ApproxSoftSPIBB(epsilon=2.0).improve(problem)


@pytest.fixture
def calls(monkeypatch):
    """Count what runs, by name; fitted models by the data and the prior they are fitted to."""
    found = Counter()

    def watch(place, name):
        run = getattr(place, name)

        def counted(*args, **named):
            found[name] += 1
            return run(*args, **named)

        monkeypatch.setattr(place, name, counted)

    for name in ("assess_risk", "ask_halves", "decide"):
        watch(module, name)
    watch(inspecting, "inspect")
    fit = PosteriorModel.of.__func__

    def fitted(cls, problem, settings=None):
        data = problem.counts.n_sa.tobytes(), problem.counts.reward_sum.tobytes()
        found[data, settings or ModelSettings()] += 1
        return fit(cls, problem, settings)

    monkeypatch.setattr(PosteriorModel, "of", classmethod(fitted))
    return found


ONCE = {"assess_risk": 1, "ask_halves": 1, "decide": 1, "inspect": 1}


def named(calls):
    return {name: n for name, n in calls.items() if isinstance(name, str)}


def fitted_models(calls):
    """Return how often each model was fitted: that of the whole log, and those of its halves."""
    found = {key: n for key, n in calls.items() if not isinstance(key, str)}
    rows = {key: np.frombuffer(key[0][0], dtype=np.int64).sum() for key in found}
    whole = max(rows, key=rows.get)
    return found.pop(whole), sorted(found.values())


@pytest.mark.parametrize("printed", ["table", "json", "csv"])
def test_one_command_fits_every_model_and_asks_every_question_once(calls, tmp_path, printed):
    with resources.as_file(resources.files("spibb.cli") / "demo") as folder:
        words = ["improve", f"{folder}/log.csv", "--baseline", f"{folder}/baseline.csv",
                 "--gamma", "0.95", "--out", f"{tmp_path}/out", "--format", printed]  # fmt: skip
        assert CliRunner().invoke(app, words).exit_code == 0
    assert named(calls) == ONCE
    of_log, of_halves = fitted_models(calls)
    assert of_log == 1, "other priors need no other fit"
    assert len(of_halves) == 2
    assert max(of_halves) <= 2, "to make a policy, and to judge one"
    assert (tmp_path / "out" / "report.html").exists()


def test_a_written_assessment_is_not_computed_again(calls, result, tmp_path):
    fresh = spibb.Problem.of(
        result.problem.log, baseline=result.problem.baseline, gamma=0.9, reward_range=(-5, 5)
    )
    judged = spibb.Assessment.of(spibb.ApproxSoftSPIBB(epsilon=2.0).improve(fresh))
    assert not calls, "nothing is computed before it is asked for"
    verdict, risk = judged.verdict, judged.risk
    summary = write_result(judged, tmp_path / "out")
    assert summary["verdict"]["sentence"] == verdict.sentence
    assert judged.verdict is verdict
    assert judged.risk is risk
    assert named(calls) == ONCE
    of_log, of_halves = fitted_models(calls)
    assert of_log == 1
    assert of_halves == [1, 1]


def test_a_comparison_judges_each_result_once(calls, problem, tmp_path):
    algorithms = [spibb.PiBSPIBB(n_wedge=2), spibb.BasicRL()]
    fresh = spibb.Problem.of(problem.log, baseline=problem.baseline, gamma=0.9)
    table = spibb.compare(fresh, algorithms)
    table.write(tmp_path / "out")
    assert named(calls) == {"assess_risk": 2, "ask_halves": 2, "decide": 2, "inspect": 1}
    assert [one.problem is fresh for one in table.assessments] == [True, True]


def test_an_assessment_of_a_result_is_about_that_result(result):
    judged = spibb.Assessment.of(result)
    assert judged.policy is result.policy
    assert judged.values is result.values
    assert judged.certificate is result.certificate
    assert judged.algorithm == result.algorithm
    assert judged.baseline is result.baseline
    assert judged.risk.cross_fitted == judged.cross_validation.expected
    assert judged.risk.held_out == judged.held_out == judged.cross_validation.held_out
    assert judged.state_risks is judged.risk.states
    assert judged.findings[-1].startswith(result.status.value)


def test_any_policy_can_be_assessed(problem, result):
    """Without an algorithm: as `spibb.risk` and `spibb.audit` judge it, and no halves."""
    given, named_otherwise = spibb.Assessment.of(problem, result.policy), reordered(result.policy)
    assert spibb.Assessment.of(problem, named_otherwise).policy.probabilities == pytest.approx(
        result.policy.probabilities
    )
    assert given.risk.gain == spibb.risk(problem, result.policy).gain
    audited = spibb.audit(problem, policy=result.policy)
    assert given.certificate.to_dict() == audited.to_dict()
    assert given.values.v == pytest.approx(result.v)
    assert (given.cross_validation, given.held_out, given.choice) == (None, None, None)
    assert (given.algorithm, given.limit_costs) == (None, {})
    halves = {one.name: one.holds for one in given.verdict.conditions}["halves"]
    assert halves is None
    assert not any(result.status.value in text for text in given.findings)
    assert repr(given).startswith("<Assessment of a policy\n")
    with pytest.raises(SettingsError, match="not made by an algorithm"):
        result_summary(given)


def reordered(policy):
    """Return a policy with its actions in another order."""
    return spibb.TabularPolicy(
        policy.probabilities[:, ::-1], list(policy.states), list(policy.actions)[::-1]
    )


def test_the_choice_and_the_report_rest_on_one_model(problem):
    result = spibb.AutoSPIBB(caution=0.5).improve(problem)
    judged, choice = spibb.Assessment.of(result), result.choice
    assert judged.posterior is choice.model
    assert choice.chosen is not None
    chosen = choice.candidates[choice.chosen].gain
    assert astuple(judged.risk.gain) == pytest.approx(astuple(chosen), rel=1e-9)


def test_the_baseline_is_kept_and_large_models_have_no_risk(calls, problem, result, monkeypatch):
    kept = spibb.Assessment.of(problem, problem.baseline)
    risk = kept.risk
    assert (risk.mean, risk.deviation, risk.probability_of_harm) == (0.0, 0.0, 0.0)
    assert risk.interval() == (0.0, 0.0)
    assert set(risk.scenarios) == {0.0}
    assert not kept.state_risks.gain.any()
    assert not kept.state_risks.harm.any()
    assert kept.verdict.decision is Decision.KEEP
    calls.clear()
    monkeypatch.setattr(module, "LARGEST_DENSE", 0)
    large = spibb.Assessment.of(result)
    assert (large.risk, large.cross_validation, large.held_out) == (None, None, None)
    assert large.verdict.decision is Decision.KEEP
    assert not calls.keys() - {"decide", "inspect"}


def test_parts_of_a_gain_are_those_of_the_states(problem, result):
    """Means are parts of the mean, and the worst 10 % those of the lower-tail mean."""
    found = spibb.risk(problem, result.policy)
    assert found.states.gain.shape == (problem.counts.n_states,)
    assert found.states.gain.sum() == pytest.approx(found.mean, abs=0.2 * found.deviation)
    assert (found.by_state <= found.states.gain).all()
    changed = np.abs(result.policy.probabilities - problem.baseline.probabilities).max(axis=1) > 0
    assert not found.by_state[~changed].any()


@pytest.mark.parametrize("given", [(3,), ("log", "policy"), (None, None)])
def test_what_cannot_be_assessed_is_refused(given):
    with pytest.raises(SettingsError, match=r"Assessment\.of was given"):
        spibb.Assessment.of(*given)


def test_a_result_takes_no_second_policy_and_a_problem_needs_one(problem, result):
    for given in ((result, result.policy), (problem,)):
        with pytest.raises(SettingsError, match=r"Assessment\.of was given"):
            spibb.Assessment.of(*given)


def test_json_and_text_tell_the_same_verdict(result, tmp_path):
    judged = spibb.Assessment.of(result)
    result.write(tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert summary["verdict"]["sentence"] == judged.verdict.sentence
    assert summary["risk"]["statement"] == judged.risk.statement
