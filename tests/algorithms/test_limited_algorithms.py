"""Algorithms under limits: kept by all that have a row step, refused by name by the others."""

import numpy as np
import pytest

from spibb import (
    HCPI,
    Assessment,
    AutoSPIBB,
    BasicRL,
    ExactSoftSPIBB,
    Limits,
    Log,
    PiBSPIBB,
    Problem,
    SpibbError,
    TabularMDP,
    TabularPolicy,
    audit,
    compare,
    evaluate,
    improve_many,
    plan_promise,
)
from spibb.algorithms.registry import ALGORITHMS
from spibb.certify.case import spent_budget
from spibb.mdp.policy_file import read_policy
from spibb.testing.checks import random_problem
from spibb.uncertainty.error_functions import HoeffdingQ

_, BASELINE, LOG = random_problem(5, n_episodes=80)
N_STATES, N_ACTIONS = BASELINE.probabilities.shape
ASKED = {"baseline": BASELINE, "gamma": 0.9, "reward_range": (-5.0, 5.0)}
KEEPING = [kind for kind in ALGORITHMS.values() if kind.keeps_limits]
OTHERS = [kind for kind in ALGORITHMS.values() if not kind.keeps_limits]
EVERY = pytest.mark.parametrize("kind", KEEPING, ids=lambda kind: kind.id)

RNG = np.random.default_rng(2)
MASK = RNG.random(BASELINE.probabilities.shape) < 0.5
MASK[:, 0] = True
LIMITS = {
    "forbid": Limits(forbid=["1"]),
    "no_increase": Limits(no_increase=["0"]),
    "allowed": Limits(allowed=MASK),
    "lock": Limits(lock=range(0, N_STATES, 2)),
    "cap": Limits(cap={a: float(BASELINE.probabilities[:, a].max()) for a in range(N_ACTIONS)}),
    "cap_increase": Limits(cap_increase=dict.fromkeys(range(N_ACTIONS), 0.1)),
    "max_states": Limits(max_states=2),
    "combined": Limits(
        forbid=["1"], cap_increase={0: 0.3}, allowed=MASK | (np.arange(N_ACTIONS) != 0)
    ),
}


def free_problem(limits=None):
    return Problem.of(LOG, **ASKED, limits=limits)


def kept(kind):
    """Settings at which there is something to move."""
    return kind(epsilon=2.0) if "epsilon" in kind.__dataclass_fields__ else kind()


@EVERY
@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_kept_and_checked(kind, name):
    problem = free_problem(LIMITS[name])
    result = kept(kind).improve(problem)
    policy = result.policy.probabilities
    assert not problem.bounds.exceeded(policy).any()
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, atol=1e-12)
    checks = {one.name: one for one in result.certificate.checks}
    asked = "max-states" if name == "max_states" else "limits"
    assert checks[asked].is_satisfied
    if name == "max_states":
        assert (policy != BASELINE.probabilities).any(axis=1).sum() <= 2
    if name == "lock":
        np.testing.assert_array_equal(policy[::2], BASELINE.probabilities[::2])
    if name == "forbid":
        assert (policy[:, 1] == 0.0).all()
    assert set(Assessment.of(result).limit_costs) in (set(), set(LIMITS[name].given))


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.id)
def test_others_refuse_limits_by_name(kind):
    with pytest.raises(SpibbError, match=f"{kind.id} does not keep the limit forbid.*exact-soft"):
        kind().improve(free_problem(LIMITS["forbid"]))
    with pytest.raises(SpibbError, match=f"{kind.id} does not keep"):
        improve_many([kind()], [free_problem(LIMITS["forbid"])])


def test_who_keeps_limits():
    assert {kind.id for kind in OTHERS} == {
        "duipi", "robust-mdp", "robust-baseline-regret", "mbie", "hcpi", "decision-points"
    }  # fmt: skip


WIDE = [
    Limits(cap=dict.fromkeys(range(N_ACTIONS), 1.0)),
    Limits(cap_increase=dict.fromkeys(range(N_ACTIONS), 1.0)),
    Limits(allowed=np.ones_like(MASK)),
    Limits(max_states=N_STATES),
]
NARROW = [
    Limits(no_increase=range(N_ACTIONS)),
    Limits(cap_increase=dict.fromkeys(range(N_ACTIONS), 0.0)),
    Limits(lock=range(N_STATES)),
    Limits(max_states=0),
]


@EVERY
def test_at_their_ends_limits_are_the_plain_algorithm_and_the_baseline(kind):
    algorithm = kept(kind)
    plain = algorithm.improve(free_problem())
    for limits in WIDE:
        found = algorithm.improve(free_problem(limits))
        np.testing.assert_array_equal(found.policy.probabilities, plain.policy.probabilities)
        np.testing.assert_array_equal(found.v, plain.v)
        assert all(cost == 0.0 for cost in Assessment.of(found).limit_costs.values())
    for limits in NARROW:
        found = algorithm.improve(free_problem(limits))
        np.testing.assert_array_equal(found.policy.probabilities, BASELINE.probabilities)
    if kind.keeps_min_gain:
        found = algorithm.improve(free_problem(Limits(min_gain=0.0)))
        np.testing.assert_array_equal(found.policy.probabilities, plain.policy.probabilities)
        found = algorithm.improve(free_problem(Limits(min_gain=np.inf)))
        np.testing.assert_array_equal(found.policy.probabilities, BASELINE.probabilities)


@pytest.mark.parametrize("kind", [k for k in KEEPING if k.keeps_min_gain], ids=lambda k: k.id)
def test_every_change_is_worth_what_it_must_be(kind):
    plain = kept(kind).improve(free_problem())
    gains = ((plain.policy.probabilities - BASELINE.probabilities) * plain.q).sum(axis=1)
    least = float(np.quantile(gains[gains > 1e-9], 0.5))
    found = kept(kind).improve(free_problem(Limits(min_gain=least)))
    change = found.policy.probabilities - BASELINE.probabilities
    gains = (change * found.q).sum(axis=1)
    assert (gains[np.abs(change).sum(axis=1) > 0] >= least).all()
    assert found.certificate.check("min-gain").is_satisfied


def test_min_gain_is_refused_where_another_model_decides():
    with pytest.raises(SpibbError, match="auto-spibb does not keep the limit min_gain"):
        AutoSPIBB().improve(free_problem(Limits(min_gain=0.1)))


def test_the_policy_is_optimal_under_limits_in_the_model():
    """Basic RL with caps solves the constrained model: no row of bounded policies is better."""
    limits = LIMITS["cap_increase"]
    problem = free_problem(limits)
    result = BasicRL().improve(problem)
    from scipy.optimize import linprog

    for x in range(N_STATES):
        best = linprog(
            -result.q[x], A_eq=np.ones((1, N_ACTIONS)), b_eq=[1.0],
            bounds=[(0.0, end) for end in problem.bounds.upper[x].tolist()],
        )  # fmt: skip
        assert result.q[x] @ result.policy.probabilities[x] == pytest.approx(-best.fun, abs=1e-8)


def test_more_states_are_worth_more():
    gains = [
        BasicRL().improve(free_problem(Limits(max_states=n))).estimated_gain
        for n in range(N_STATES + 1)
    ]
    assert gains[0] == 0.0
    assert (np.diff(gains) >= -1e-9).all()
    assert gains[-1] == pytest.approx(BasicRL().improve(free_problem()).estimated_gain)


# Certificates


def test_a_certificate_is_about_the_policy_and_the_true_baseline():
    """The regret test of a limited result is that of the same policy, however it was made."""
    for name in ("forbid", "combined", "cap_increase"):
        result = ExactSoftSPIBB(epsilon=2.0).improve(free_problem(LIMITS[name]))
        alone = audit(free_problem(), policy=result.policy)
        assert result.certificate.bound == pytest.approx(alone.bound, abs=1e-12)
        within = audit(free_problem(LIMITS[name]), policy=result.policy)
        assert within.check("limits").is_satisfied


def test_forbidden_mass_spends_the_budget():
    epsilon = 0.6
    algorithm = ExactSoftSPIBB(epsilon=epsilon)
    problem = free_problem(LIMITS["forbid"])
    result = algorithm.improve(problem)
    errors = HoeffdingQ().errors(problem, algorithm.delta)
    base, acts = BASELINE.probabilities, problem.bounds.acts
    forced = spent_budget(problem.bounds.start - base, errors)[acts]
    spent = spent_budget(result.policy.probabilities - base, errors)[acts]
    within = forced <= epsilon
    assert within.any()
    assert not within.all()
    assert (spent[within] <= epsilon * (1 + 1e-9)).all()
    assert (spent[within] > forced[within] + 1e-6).any(), "what is left is used"
    # Where the move alone costs more, only free changes are added, and the certificate says it.
    np.testing.assert_allclose(spent[~within], forced[~within])
    check = result.certificate.check("constraint")
    assert check.is_satisfied is False
    assert check.n_violations == (~within).sum()
    assert check.value == pytest.approx(spent.max())


def test_forbidding_the_good_action_is_no_gain_and_no_certificate_says_so():
    mdp = TabularMDP(
        [[[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2], [[1.0, 0.0], [0.0, 0.0]], 0.5,
        initial=[1.0, 0.0], terminal=[False, True],
    )  # fmt: skip
    baseline = TabularPolicy.uniform(2, 2)
    bounds = []
    for seed in range(40):
        log = Log.sample(
            mdp, baseline, n_episodes=400, max_steps=2, rng=np.random.default_rng(seed)
        )
        result = ExactSoftSPIBB(epsilon=9.0).improve(
            log, baseline=baseline, gamma=0.5, reward_range=(0.0, 1.0), states_complete=True,
            limits=Limits(forbid=["0"]),
        )  # fmt: skip
        bounds.append(result.certificate.bound)
        assert result.estimated_gain < 0.0
        assert not result.certificate.check("advantage").is_satisfied
        for other in result.certificate.others:
            assert not other.applies or other.bound <= -0.5
    truth = evaluate(mdp, result.policy).performance - evaluate(mdp, baseline).performance
    assert truth == pytest.approx(-0.5)
    assert max(bounds) <= truth


def test_an_audit_names_the_first_place_that_is_not_kept():
    limits = Limits(cap_increase={0: 0.05})
    policy = TabularPolicy(np.eye(N_ACTIONS)[np.zeros(N_STATES, int)])
    check = audit(free_problem(limits), policy=policy).check("limits")
    assert not check.is_satisfied
    assert check.where.startswith("state 0, action 0")
    assert check.value == pytest.approx(1.0 - (BASELINE.probabilities[:, 0] + 0.05).min(), abs=1e-9)
    few = audit(free_problem(Limits(max_states=1)), policy=policy).check("max-states")
    assert (few.is_satisfied, few.limit) == (False, 1.0)


# Around it


def test_a_batch_is_limited_as_its_problems_are():
    problems = [free_problem(LIMITS[name]) for name in ("forbid", "lock", "max_states")]
    algorithms = [ExactSoftSPIBB(epsilon=2.0), PiBSPIBB(n_wedge=5)]
    many = improve_many(algorithms, problems)
    for k, algorithm in enumerate(algorithms):
        for place, problem in enumerate(problems):
            alone = algorithm.improve(problem)
            np.testing.assert_array_equal(many.probabilities[k, place], alone.policy.probabilities)
    with pytest.raises(SpibbError, match="declare different things"):
        improve_many(algorithms, [problems[0], free_problem()])


def test_comparison_and_risk_know_limits():
    found = compare(free_problem(LIMITS["forbid"]), [ExactSoftSPIBB(epsilon=2.0), BasicRL()])
    for one in found.assessments:
        assert (one.policy.probabilities[:, 1] == 0.0).all()
        assert one.risk is not None
    with pytest.raises(SpibbError, match="hcpi does not keep"):
        compare(free_problem(LIMITS["forbid"]), [HCPI()])


def test_an_audit_accepts_what_was_written_under_the_same_limits(tmp_path):
    """Also where it says something else where everything is over."""
    limits = LIMITS["combined"]
    problem = free_problem(limits)
    result = ExactSoftSPIBB(epsilon=2.0).improve(problem)
    result.write(tmp_path / "out")
    written = read_policy(tmp_path / "out/policy.csv")
    assert audit(problem, policy=written).check("limits").is_satisfied
    ends = problem.counts.terminal
    assert ends.any()
    other = np.array(result.policy.probabilities)
    other[ends] = np.eye(N_ACTIONS)[1]
    anywhere = TabularPolicy(other, BASELINE.state_labels, BASELINE.action_labels)
    assert audit(problem, policy=anywhere).check("limits").is_satisfied
    other[~ends] = np.eye(N_ACTIONS)[1]
    forbidden = TabularPolicy(other, BASELINE.state_labels, BASELINE.action_labels)
    assert audit(problem, policy=forbidden).check("limits").is_satisfied is False


def test_what_chooses_thresholds_goes_without_limits():
    with pytest.raises(SpibbError, match="without limits"):
        plan_promise(free_problem(LIMITS["lock"]), zeta=1.0)


def test_costs_are_gains_of_training_without_each_limit():
    limits = Limits(no_increase=["0"], cap_increase={1: 0.1})
    result = ExactSoftSPIBB(epsilon=2.0).improve(free_problem(limits))
    found = Assessment.of(result)
    assert found.withheld is None
    assert set(found.limit_costs) == set(limits.given)
    for name, cost in found.limit_costs.items():
        again = ExactSoftSPIBB(epsilon=2.0).improve(free_problem(limits.without(name)))
        assert cost == pytest.approx(again.estimated_gain - result.estimated_gain, abs=1e-12)
        assert cost >= -1e-9
    assert any("Limits, with what each costs" in text for text in found.findings)
