"""What to do with a policy: the rule, case by case, and that it is told alike everywhere."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import spibb
from spibb.assessment.criteria import MOST_HARM, MOST_LOW_COUNT
from spibb.assessment.verdict import Decision, decide
from spibb.inspection.finding import Finding
from spibb.posterior.gain import Gain
from spibb.posterior.risk import PriorRange, Risk
from spibb.posterior.states import StateRisks
from spibb.report.summary import result_summary


@pytest.fixture(scope="module")
def result():
    """One state, two actions: the second pays one more, and the log is long."""
    action = np.random.default_rng(0).permutation(np.repeat([0, 1], 2_000))
    log = spibb.Log.from_arrays(
        state=np.zeros(4_000, int), action=action, reward=action / 1.0, episode=np.arange(4_000),
        terminated=np.ones(4_000, bool),
    )  # fmt: skip
    known = {"reward_range": (0, 1), "states_complete": True}
    uniform = spibb.TabularPolicy.uniform(1, 2)
    return spibb.BasicRL().improve(log, baseline=uniform, gamma=0.9, **known)


@dataclass(frozen=True)
class StatedGain(Gain):
    """A gain of which the probability of harm is stated, not computed."""

    harm: float = 0.0

    @property
    def probability_of_harm(self):
        return self.harm


NOTHING = StateRisks(np.zeros(1), np.zeros(1), np.zeros(1))


def judged(result, mean=1.0, harm=0.0, halves=0.5, low_count=0.0, bound=-3.0, is_exact=True):
    """Return a result of which the numbers that the rule asks for are these."""
    gain = StatedGain(mean, 1.0, harm=harm)
    risk = Risk(gain, low_count, NOTHING, PriorRange((mean, mean), (harm, harm)), halves)
    claim = replace(result.certificate.guarantee, bound=bound, is_exact=is_exact)
    certificate = replace(result.certificate, guarantee=claim)
    return SimpleNamespace(
        risk=risk, certificate=certificate, problem=result.problem, choice=None, inspection=None,
        model_fit=spibb.Assessment.of(result).model_fit, representation=None,
        representation_remark="no raw columns were given",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "decision"),
    [
        ({}, Decision.MONITOR),
        ({"harm": MOST_HARM}, Decision.MONITOR),
        ({"halves": None}, Decision.MONITOR),
        ({"harm": MOST_HARM + 0.01}, Decision.WAIT),
        ({"halves": 0.0}, Decision.WAIT),
        ({"low_count": MOST_LOW_COUNT + 0.01}, Decision.WAIT),
        ({"mean": 0.0}, Decision.KEEP),
        ({"mean": -1.0, "bound": 0.5}, Decision.KEEP),
        ({"bound": 0.0}, Decision.DEPLOY),
        ({"bound": 0.5}, Decision.DEPLOY),
        ({"bound": 0.5, "is_exact": False}, Decision.MONITOR),
        ({"bound": 0.5, "harm": 0.3}, Decision.MONITOR),
        ({"bound": None}, Decision.MONITOR),
        ({"bound": None, "harm": 0.3}, Decision.WAIT),
    ],
)
def test_the_rule(result, numbers, decision):
    found = decide(judged(result, **numbers))
    assert found.decision is decision
    assert found.sentence.startswith(f"{found.headline}, since ")
    assert found.headline.startswith(decision)


def test_a_reason_names_everything_that_is_wrong(result):
    said = decide(judged(result, harm=0.3, halves=-0.1, low_count=0.8)).sentence
    for part in ("harm has a probability of 30 %", "halves of the log", "80 % of its decisions"):
        assert part in said


def test_more_episodes_stand_in_the_headline_only_where_data_are_missing():
    """A rare drug that is best: after 60 episodes the choice still waits, and says for how many."""
    drug = spibb.envs.RareAction()
    process, baseline = drug.to_mdp(0.9), drug.baseline(0.3)
    found = []
    for n_episodes in (60, 600):
        rng = np.random.default_rng(0)
        log = spibb.Log.sample(process, baseline, n_episodes=n_episodes, max_steps=40, rng=rng)
        result = spibb.AutoSPIBB().improve(log, baseline=baseline, gamma=0.9)
        found.append(spibb.Assessment.of(result).verdict)
    waits, dares = found
    assert waits.headline.startswith("Not enough data: about ")
    assert 0 < waits.more_episodes < 600
    assert dares.more_episodes is None
    assert dares.decision is not Decision.WAIT


def test_a_long_log_of_one_step_is_certified_and_deployed(result):
    found = result_summary(spibb.Assessment.of(result))["verdict"]
    assert found["decision"] == "Deploy"
    unknown = [one["name"] for one in found["conditions"] if one["holds"] is not True]
    assert unknown == ["finer"], "no raw columns were given; all else holds"


def test_what_was_found_in_the_log_counts(result):
    """Nobody deploys on a log of which half is twice in it, nor on one that is no log of this."""
    judgements = {}
    for severity in ("weaker", "biased", "void"):
        certified = judged(result, bound=0.5)
        finding = Finding("copies", severity, "Rows are there twice.", "", "", 1.0)
        certified.inspection = SimpleNamespace(findings=(finding,))
        judgements[severity] = decide(certified)
    assert judgements["weaker"].decision is Decision.DEPLOY
    assert judgements["biased"].decision is Decision.MONITOR
    assert judgements["void"].decision is Decision.KEEP
    for severity in ("biased", "void"):
        assert "rows are there twice" in judgements[severity].sentence
    uncertified = judged(result)
    finding = Finding("copies", "biased", "Rows are there twice.", "", "", 1.0)
    uncertified.inspection = SimpleNamespace(findings=(finding,))
    assert "rows are there twice" in decide(uncertified).sentence


def test_copies_of_a_log_are_no_evidence():
    """Of 40 episodes the drug that ruins looks good; eight copies of them are sure of it."""
    drug = spibb.envs.RareAction(is_ruinous=True)
    process, baseline = drug.to_mdp(0.9), drug.baseline(0.3)
    old, sure, worse = spibb.evaluate(process, baseline).performance, 0, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        log = spibb.Log.sample(process, baseline, n_episodes=40, max_steps=40, rng=rng)
        names = ("state", "action", "reward", "next_state", "terminated", "truncated")
        copied = spibb.Log.from_arrays(
            **{name: np.tile(getattr(log, name), 8) for name in names},
            episode=(log.episode + 1_000 * np.arange(8)[:, None]).ravel(),
            n_states=log.n_states, n_actions=log.n_actions,
        )  # fmt: skip
        result = spibb.ApproxSoftSPIBB(epsilon=4.0, delta=1.0).improve(
            copied, baseline=baseline, gamma=0.9, accept_baseline=True
        )
        worse += spibb.evaluate(process, result.policy).performance < old - 1e-9
        judgement = spibb.Assessment.of(result)
        sure += judgement.risk.probability_of_harm <= MOST_HARM
        found = judgement.verdict
        assert found.decision is Decision.KEEP
        assert "the log is not sound" in found.sentence
    assert worse > 6
    assert sure > 0, "without the finding some would pass"


def test_the_baseline_itself_is_kept(result):
    kept = spibb.ApproxSoftSPIBB(epsilon=0.0).improve(result.problem)
    said = spibb.Assessment.of(kept).verdict.sentence
    assert said == "Keep the baseline, since the new policy is the baseline: nothing changes."


def test_a_clock_that_the_state_does_not_hold_is_noticed():
    """Every episode ends after ten steps, which models take for a chance of a tenth at each.

    At a discount of .9 they put what ten is worth at the end at 5.3 instead of 3.9; an action that
    pays .1 more is a sure gain, but a smaller one.
    """
    rng, n = np.random.default_rng(0), 2_000
    action, last = rng.integers(0, 2, 10 * n), np.arange(10 * n) % 10 == 9
    reward = 0.1 * action + 10.0 * last + 0.01 * rng.normal(size=10 * n)
    log = spibb.Log.from_arrays(
        state=np.zeros(10 * n, int), action=action, reward=reward, next_state=0 * action,
        episode=np.arange(10 * n) // 10, terminated=last,
    )  # fmt: skip
    uniform = spibb.TabularPolicy.uniform(1, 2)
    result = spibb.BasicRL().improve(log, baseline=uniform, gamma=0.9)
    found = spibb.Assessment.of(result)
    assert found.risk.probability_of_harm <= MOST_HARM
    said = found.verdict.sentence
    assert said.startswith("Keep the baseline, since the models contradict the log by more than is")


def test_where_no_models_are_drawn_the_certificate_decides(result):
    unknown = judged(result)
    unknown.risk = None
    assert decide(unknown).decision is Decision.KEEP
    certified = judged(result, bound=0.1)
    certified.risk = None
    assert decide(certified).decision is Decision.MONITOR


def test_under_limits_a_kept_baseline_is_called_what_it_is():
    """All but the drug is forbidden: nothing that was tried is better than that."""
    drug = spibb.envs.RareAction()
    process, baseline = drug.to_mdp(0.9), drug.baseline(0.3)
    rng = np.random.default_rng(0)
    log = spibb.Log.sample(process, baseline, n_episodes=20, max_steps=40, rng=rng)
    limits = spibb.Limits(forbid=[0, 1])
    result = spibb.AutoSPIBB().improve(log, baseline=baseline, gamma=0.9, limits=limits)
    assert result.choice.chosen is None
    assert not result.policy.probabilities[:, :2].any()
    summary = result_summary(spibb.Assessment.of(result))
    assert summary["verdict"]["decision"] in ("Keep the baseline", "Not enough data")
    assert "the policy that is returned is the baseline with" in summary["verdict"]["sentence"]
    assert "with the limits applied" in summary["advice"]


def test_truncated_records_are_compared_over_their_length():
    """Records that stop early earn less than the models over all time, not over their length."""
    queue = spibb.envs.Queue()
    baseline, rng = queue.baseline(0.3), np.random.default_rng(0)
    log = spibb.Log.sample(queue.to_mdp(), baseline, n_episodes=100, max_steps=30, rng=rng)
    result = spibb.BasicRL().improve(log, baseline=baseline, gamma=0.95)
    asked = {one.name: one for one in spibb.Assessment.of(result).verdict.conditions}
    assert asked["model"].holds
    assert "over the first 30 steps" in asked["model"].found
    # Where nothing was seen nothing is known, though a limit changes what is done there.
    limits = spibb.Limits(forbid=[0])
    limited = spibb.ApproxSoftSPIBB().improve(log, baseline=baseline, gamma=0.95, limits=limits)
    unseen = [
        one for one in result_summary(spibb.Assessment.of(limited))["changes"] if one["n_rows"] == 0
    ]
    assert unseen
    assert all(one["harm"] is None and one["more_rows"] is None for one in unseen)
