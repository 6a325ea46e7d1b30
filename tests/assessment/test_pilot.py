"""How to run a pilot, and why numbers that take the states for granted are in doubt."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import spibb
from spibb.assessment.criteria import Criterion
from spibb.assessment.pilot import episodes_per_group, plan_pilot
from spibb.assessment.verdict import Decision, Verdict, decide
from spibb.ope.log_return import LogReturn
from spibb.posterior.gain import Gain
from spibb.posterior.risk import PriorRange, Risk
from spibb.posterior.states import StateRisks
from spibb.report.answers import answer
from spibb.report.changes import result_changes
from spibb.representation.agreement import Agreement, RefinedClaim


@pytest.fixture
def judged():
    """One state, two actions: the second pays one more."""
    action = np.random.default_rng(0).permutation(np.repeat([0, 1], 400))
    log = spibb.Log.from_arrays(
        state=np.zeros(800, int), action=action, reward=action / 1.0, episode=np.arange(800),
        terminated=np.ones(800, bool),
    )  # fmt: skip
    uniform = spibb.TabularPolicy.uniform(1, 2)
    result = spibb.BasicRL().improve(log, baseline=uniform, gamma=0.9, reward_range=(-50, 50))
    return spibb.Assessment.of(result)


def refined(gain, *, holds, error=0.1):
    return RefinedClaim("tree", gain, error, gain, 0.1, 0.0, 0.0, 9, holds)


def with_known(judged, **known):
    """Put values where the assessment keeps what it computed."""
    vars(judged).update(known)
    return judged


def test_the_number_of_episodes_is_that_of_a_test_of_half_of_the_gain():
    """Simulated: so many episodes in each group find half of the gain with a power of 80 %."""
    deviation, gain = 3.0, 1.0
    n = episodes_per_group(deviation, gain)
    assert n == 450  # 445.2, to two digits
    rng = np.random.default_rng(0)
    new = rng.normal(0.5 * gain, deviation, (4_000, n)).mean(axis=1)
    old = rng.normal(0.0, deviation, (4_000, n)).mean(axis=1)
    found = (new - old) / (deviation * math.sqrt(2.0 / n)) > 1.645
    assert found.mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("deviation", "gain"),
    [(0.0, 1.0), (1.0, 0.0), (1.0, -1.0), (math.nan, 1.0), (math.inf, 1.0), (1e9, 1.0),
     (1e308, 1e-308), (1.0, math.nan)],
)  # fmt: skip
def test_a_number_that_means_nothing_is_not_told(deviation, gain):
    assert episodes_per_group(deviation, gain) is None


def test_there_is_a_plan_for_a_pilot_alone(judged):
    for decision in Decision:
        known = with_known(judged, verdict=Verdict(decision, "it is so", ()))
        plan = plan_pilot(known)
        assert (plan is not None) == (decision is Decision.PILOT)
    plan = plan_pilot(with_known(judged, verdict=Verdict(Decision.PILOT, "it is so", ())))
    assert "by a weighted coin flip for each episode before it starts" in plan.steps[0]
    assert f"About {plan.episodes_per_group:,} episodes" in plan.steps[2]
    assert plan.detected_gain == pytest.approx(judged.risk.mean / 2)


def test_a_plan_without_numbers_is_a_plan(judged):
    pilot = Verdict(Decision.PILOT, "it is so", ())
    for known in ({"risk": None}, {"log_return": None}):
        plan = plan_pilot(with_known(judged, verdict=pilot, **known))
        assert (plan.episodes_per_group, plan.detected_gain) == (None, None)
        assert plan.steps[2].endswith("which loss stops it.")


def test_the_deviation_of_returns_is_that_of_the_log():
    log = spibb.Log.from_arrays(state=[0, 0], action=[0, 0], reward=[1.0, 3.0], episode=[0, 1])
    found = LogReturn.of(log, 0.9)
    assert found.deviation == pytest.approx(math.sqrt(2.0))
    one = spibb.Log.from_arrays(state=[0], action=[0], reward=[1.0], episode=[0])
    assert math.isnan(LogReturn.of(one, 0.9).deviation)


@pytest.mark.parametrize(
    ("criteria", "figure", "said"),
    [
        ([("states", True, "x"), ("finer", None, "x")], "0 of 100", "simulated scenarios lose"),
        (
            [("states", False, "the log contradicts that the recorded state is all that matters")],
            "Unknown",
            "since the log contradicts that the recorded state is all that matters; if it were, "
            "0 of 100 simulated scenarios would lose (below ",
        ),
        (
            [("states", True, "x"), ("finer", False, "the gain does not survive in finer states")],
            "Unknown",
            "since the gain does not survive in finer states; if the recorded state were all that "
            "matters, 0 of 100 simulated scenarios would lose (below ",
        ),
    ],
)
def test_harm_is_unknown_where_states_are_in_doubt(judged, criteria, figure, said):
    conditions = tuple(
        Criterion(name, "asked", "found", holds, "objection", doubt)
        for name, holds, doubt in criteria
    )
    known = with_known(judged, verdict=Verdict(Decision.PILOT, "it is so", conditions))
    answers = {one.name: one for one in answer(known, result_changes(known))}
    assert answers["harm"].figure == figure
    assert said in answers["harm"].text
    is_doubted = figure == "Unknown"
    assert ("only if the recorded state is all that" in answers["gain"].text) == is_doubted


def test_the_gain_names_the_least_gain_in_finer_states(judged):
    doubt = Criterion("finer", "asked", "found", False, "objection", "the gain does not survive")
    agreement = Agreement(("x",), 1.0, 0.1, (refined(0.3, holds=False), refined(0.9, holds=True)))
    known = with_known(judged, verdict=Verdict(Decision.PILOT, "so", (doubt,)), _refined=agreement)
    gain = next(one for one in answer(known, result_changes(known)) if one.name == "gain")
    assert gain.text.endswith("The least gain in finer states is +0.3 (tree).")


def test_each_reason_for_doubt_has_words_of_its_own(judged):
    result = judged.improvement
    gain, nothing = Gain(1.0, 0.1), StateRisks(np.zeros(1), np.zeros(1), np.zeros(1))
    certificate = replace(
        result.certificate, guarantee=replace(result.certificate.guarantee, bound=-3.0)
    )
    log = result.problem.log.with_features({"x": np.arange(800.0)})
    known = {
        "risk": Risk(gain, 0.0, nothing, PriorRange((1.0, 1.0), (0.0, 0.0)), 0.5),
        "certificate": certificate, "problem": replace(result.problem, log=log), "choice": None,
        "inspection": None, "model_fit": judged.model_fit,
    }  # fmt: skip
    cases = [
        (Agreement(("x",), 1.0, 0.1, (refined(0.9, holds=True),)), "", Decision.MONITOR, ""),
        (Agreement(("x",), 1.0, 0.1, (refined(0.3, holds=False),)), "", Decision.PILOT,
         "the gain does not survive in finer states"),
        (Agreement(("x",), 1.0, 0.1, (refined(-0.9, holds=False),)), "", Decision.KEEP,
         "the gain does not survive in finer states"),
        (None, "there are too many", Decision.PILOT,
         "the gain could not be checked in finer states"),
    ]  # fmt: skip
    for agreement, remark, decision, doubt in cases:
        found = decide(
            SimpleNamespace(**known, representation=agreement, representation_remark=remark)
        )
        assert (found.decision, found.doubt) == (decision, doubt)
