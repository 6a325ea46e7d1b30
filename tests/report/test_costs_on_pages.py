"""What a page and its answers say where costs are minimized: what to do is said in costs."""

import re

import numpy as np
import pytest

import spibb
from spibb.assessment.verdict import Decision, Verdict
from spibb.ope.evaluate import evaluate_policy
from spibb.report.evaluation import statement
from spibb.report.html import render_report
from spibb.report.summary import result_summary


@pytest.fixture
def judged():
    """One state, two actions: the second costs 1, the first 2."""
    action = np.random.default_rng(0).permutation(np.repeat([0, 1], 400))
    log = spibb.Log.from_arrays(
        state=np.zeros(800, int), action=action, reward=2.0 - action, episode=np.arange(800),
        terminated=np.ones(800, bool), minimize=True,
    )  # fmt: skip
    uniform = spibb.TabularPolicy.uniform(1, 2)
    result = spibb.BasicRL().improve(log, baseline=uniform, gamma=0.9, reward_range=(-50, 0))
    return spibb.Assessment.of(result)


def test_the_page_of_a_result(judged):
    assert judged.verdict.decision is Decision.MONITOR
    summary = result_summary(judged)
    page = " ".join(re.sub("<[^>]*>", " ", render_report(judged, summary)).split())
    assert "the sum of rewards (costs with their sign turned) with each step counting 0.9" in page
    assert "in the units of the log and with the sign of its costs turned" in page
    assert "Lower costs are better (minimize)." in page
    today, gain = summary["answers"][:2]
    assert today["figure"] == "-1.5"
    assert today["text"].startswith("an episode (a cost of 1.5), ")
    assert gain["figure"].startswith("+"), "what is saved is a gain"
    assert any(
        "earned -1.5 an episode in the log (a cost of 1.5)" in one for one in judged.findings
    )
    assert "cost with its sign turned" in repr(judged.problem)
    assert "cost with its sign turned" in repr(judged)


def test_a_pilot_compares_costs(judged):
    """Whoever compares mean costs by a rule for returns would stop what works."""
    vars(judged)["verdict"] = Verdict(Decision.PILOT, "it is so", ())
    assert "mean cost is higher than the other group's" in judged.pilot.steps[3]
    other = spibb.Log.from_arrays(state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20,
                                  episode=range(40), terminated=[True] * 40)  # fmt: skip
    result = spibb.BasicRL().improve(other, baseline=spibb.TabularPolicy.uniform(1, 2), gamma=0.9)
    rewards = spibb.Assessment.of(result)
    vars(rewards)["verdict"] = Verdict(Decision.PILOT, "it is so", ())
    assert "mean is lower than the other group's" in rewards.pilot.steps[3]


def test_the_statement_of_an_evaluation(judged):
    log, uniform = judged.problem.log, spibb.TabularPolicy.uniform(1, 2)
    for policy, said in (
        ([[0.1, 0.9]], "A lower cost than the 1.5 of today, by all of 1 interval."),
        ([[0.9, 0.1]], "A higher cost than the 1.5 of today, by all of 1 interval."),
        ([[0.5, 0.5]], "The log does not decide whether the cost is lower than the 1.5 of today"),
    ):
        found = evaluate_policy(log, policy=spibb.TabularPolicy(policy), baseline=uniform,
                                gamma=0.9, estimators=["is"])  # fmt: skip
        assert statement(found).startswith(said)
        assert "cost with its sign turned" in repr(found)
