"""Costs that may not rise: in every state by the model, by every algorithm that says so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spibb import (
    ApproxSoftSPIBB,
    Assessment,
    BasicRL,
    Counts,
    ExactSoftSPIBB,
    Limits,
    Log,
    Problem,
    TabularMDP,
    TabularPolicy,
    audit,
    evaluate,
    improve_many,
)
from spibb.algorithms.registry import ALGORITHMS
from spibb.errors import DataError, SettingsError
from spibb.testing.checks import random_problem

_, BASELINE, FREE = random_problem(5, n_episodes=200)
COSTS = np.random.default_rng(0).random((len(FREE), 2)) * (1.0 + FREE.action[:, None])
LOG = replace(FREE, cost=COSTS, cost_names=("toxicity", "bill"))
ASKED = {"baseline": BASELINE, "gamma": 0.9, "reward_range": (-5.0, 5.0)}
KEEPING = [kind for kind in ALGORITHMS.values() if kind.keeps_costs]
BOTH = Limits(cost=["toxicity", "bill"])


def bold(kind):
    return kind(epsilon=2.0) if "epsilon" in kind.__dataclass_fields__ else kind()


def cost_values(problem, policy, name):
    """Return what a policy costs from each state in the model of that cost."""
    counts = Counts.from_log(problem.log.paying(name))
    model = TabularMDP.of_arrays(counts.estimate(0.9), counts.terminal)
    return evaluate(model, policy).v


@pytest.mark.parametrize("kind", KEEPING, ids=lambda kind: kind.id)
@pytest.mark.parametrize(
    "limits", [Limits(cost=["bill"]), BOTH, Limits(cost=["bill"], no_increase=[1], max_states=3)]
)
def test_no_cost_rises_in_any_state(kind, limits):
    problem = Problem.of(LOG, **ASKED, limits=limits)
    result, free = bold(kind).improve(problem), bold(kind).improve(FREE, **ASKED)
    for name in limits.cost:
        before = cost_values(problem, BASELINE, name)
        assert (cost_values(problem, result.policy, name) <= before + 1e-9).all()
        assert (cost_values(problem, free.policy, name) > before + 1e-3).any(), (
            "or nothing is shown"
        )
    assert result.certificate.check("costs").is_satisfied
    assert result.estimated_gain >= -1e-9
    assert result.estimated_gain < free.estimated_gain
    assert Assessment.of(result).limit_costs["cost"] > 0.0
    assert "no more" in result.problem.limits.statements["cost"]
    judged = audit(problem, policy=free.policy).check("costs")
    assert judged.is_satisfied is False
    assert judged.where is not None


def test_the_policy_is_the_best_of_those_that_keep_a_cost():
    """One state, three actions: by hand. The dear one is best, and pays for itself by the cheap."""
    log = Log.from_arrays(
        state=[0] * 3, action=[0, 1, 2], reward=[0.0, 1.0, 3.0], cost={"bill": [0.0, 1.0, 3.0]}
    )
    rule = TabularPolicy([[0.4, 0.4, 0.2]])  # costs 1, earns 1
    found = BasicRL().improve(log, baseline=rule, limits=Limits(cost=["bill"]))
    assert found.estimated_gain == pytest.approx(0.0, abs=1e-9)
    cheaper = Log.from_arrays(
        state=[0] * 3, action=[0, 1, 2], reward=[0.0, 1.0, 3.0], cost={"bill": [0.0, 1.0, 2.0]}
    )
    found = BasicRL().improve(cheaper, baseline=rule, limits=Limits(cost=["bill"]))
    # Today's bill is 0.8: 0.4 of the dear one, the rest of the free one.
    np.testing.assert_allclose(found.policy.probabilities, [[0.6, 0.0, 0.4]], atol=1e-9)


def test_a_batch_of_problems_and_tables():
    frame = pd.DataFrame({
        "episode": LOG.episode, "step": LOG.step, "state": LOG.state, "action": LOG.action,
        "reward": LOG.reward, "next_state": LOG.next_state, "terminated": LOG.terminated,
        "truncated": LOG.truncated, "toxicity": COSTS[:, 0], "bill": COSTS[:, 1],
    })  # fmt: skip
    shuffled = frame.sample(frac=1.0, random_state=1)
    problems = [Problem.of(data, **ASKED, limits=BOTH) for data in (LOG, frame, shuffled)]
    for one in problems[1:]:
        np.testing.assert_allclose(one.bounds.costs, problems[0].bounds.costs)
    many = improve_many([ExactSoftSPIBB(epsilon=1.0)], problems)
    alone = ExactSoftSPIBB(epsilon=1.0).improve(problems[0]).policy.probabilities
    for table in many.probabilities[0]:
        np.testing.assert_allclose(table, alone, atol=1e-7)


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(DataError, match="the log has no cost 'bill'"):
        Problem.of(FREE, **ASKED, limits=Limits(cost=["bill"]))
    with pytest.raises(DataError, match="only counts were given; expected a log, for its costs"):
        Problem.of(Counts.from_log(LOG), **ASKED, limits=BOTH)
    with pytest.raises(SettingsError, match=r"raises the cost toxicity .*no_increase in the place"):
        Problem.of(LOG, **ASKED, limits=Limits(cost=["toxicity"], forbid=[0]))
    with pytest.raises(SettingsError, match=r"ramdp does not keep the limit cost; expected one of"):
        ALGORITHMS["ramdp"]().improve(LOG, **ASKED, limits=BOTH)
    with pytest.raises(DataError, match=r"bill nan in 1 rows \(first at row 2\)"):
        Log.from_arrays(state=[0, 0], action=[0, 0], reward=[0, 0], cost={"bill": [0.0, np.nan]})
    with pytest.raises(DataError, match=r"bill has shape \(1,\)"):
        Log.from_arrays(state=[0, 0], action=[0, 0], reward=[0, 0], cost={"bill": [0.0]})


def test_a_cost_that_nothing_changes_is_no_limit():
    even = replace(FREE, cost=np.zeros((len(FREE), 1)), cost_names=("none",))
    kept = ApproxSoftSPIBB(epsilon=1.0).improve(even, **ASKED, limits=Limits(cost=["none"]))
    free = ApproxSoftSPIBB(epsilon=1.0).improve(FREE, **ASKED)
    np.testing.assert_array_equal(kept.policy.probabilities, free.policy.probabilities)
