"""Every algorithm, the audit and batches, on models that count as large: as on dense ones."""

from functools import cache

import numpy as np
import pytest

from spibb import Assessment, Log, TabularMDP, TabularPolicy, audit, improve_many
from spibb.algorithms.guarantee_planning import plan_promise
from spibb.algorithms.registry import ALGORITHMS
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.errors import SettingsError
from spibb.mdp import evaluation

S, A = 60, 3
# What is refused without a discount, dense or not.
WITH_DISCOUNT = {"r-min", "robust-mdp", "robust-baseline-regret", "mbie", "decision-points"}


@cache
def logged():
    """A log of a random process with two ends, and the policy that made it."""
    rng = np.random.default_rng(0)
    p = np.zeros((S, A, S))
    for x, a in np.ndindex(S, A):
        p[x, a, rng.choice(S, 3, replace=False)] = rng.dirichlet(np.ones(3))
    terminal = np.arange(S) < 2
    mdp = TabularMDP(p, rng.random((S, A)), 0.9, terminal=terminal)
    baseline = TabularPolicy(rng.dirichlet(np.ones(A), S))
    return Log.sample(mdp, baseline, n_episodes=600, max_steps=40, rng=rng), baseline


def improved(algorithm, gamma):
    log, baseline = logged()
    rng = np.random.default_rng(1)
    return algorithm.improve(log, baseline=baseline, gamma=gamma, rng=rng, states_complete=True)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("id_", list(ALGORITHMS))
def test_every_algorithm_gives_what_it_gives_on_a_dense_model(monkeypatch, id_, gamma):
    algorithm = ALGORITHMS[id_]()
    if gamma == 1.0 and id_ in WITH_DISCOUNT:
        monkeypatch.setattr(evaluation, "LARGEST_DENSE", 0)
        with pytest.raises(SettingsError, match="gamma"):
            improved(algorithm, gamma)
        return
    dense = improved(algorithm, gamma)
    monkeypatch.setattr(evaluation, "LARGEST_DENSE", 0)
    large = improved(algorithm, gamma)
    assert dense.values.error == 0.0
    assert 0.0 < large.values.error < 1e-6 * max(1.0, np.abs(dense.v).max())
    slack = large.values.error + 1e-12 * np.abs(dense.v).max()
    assert np.abs(large.v - dense.v).max() <= slack
    assert np.abs(large.q - dense.q).max() <= slack
    np.testing.assert_allclose(
        large.policy.probabilities, dense.policy.probabilities, atol=1e-9, rtol=0
    )
    assert (large.status, large.n_iterations) == (dense.status, dense.n_iterations)
    for a, b in zip(_claims(large.certificate), _claims(dense.certificate), strict=True):
        assert (a.theorem, a.applies) == (b.theorem, b.applies)
        if a.applies:  # errors are subtracted: never above, and hardly below
            assert b.bound - 1e-6 <= a.bound <= b.bound + 1e-9
    visits = [Assessment.of(one).visits for one in (large, dense)]
    assert visits[0].unobserved == pytest.approx(visits[1].unobserved, abs=1e-9)


def _claims(certificate):
    return certificate.guarantee, *certificate.others


def test_the_audit_and_the_promise(monkeypatch):
    log, baseline = logged()
    policy = improved(PiBSPIBB(n_wedge=20), 0.9).policy
    given = {"baseline": baseline, "gamma": 0.9, "states_complete": True}
    dense = audit(log, policy=policy, n_wedge=20, **given)
    promised = plan_promise(log, zeta=8.0, **given)
    monkeypatch.setattr(evaluation, "LARGEST_DENSE", 0)
    large = audit(log, policy=policy, n_wedge=20, **given)
    for a, b in zip(
        (large.guarantee, *large.others), (dense.guarantee, *dense.others), strict=True
    ):
        assert (a.theorem, a.bound is None) == (b.theorem, b.bound is None)
        if a.bound is not None:
            assert b.bound - 1e-6 <= a.bound <= b.bound + 1e-9
    again = plan_promise(log, zeta=8.0, **given)
    assert again.n_wedge == promised.n_wedge
    assert again.bound == pytest.approx(promised.bound, abs=1e-6)


def test_batches(monkeypatch):
    log, baseline = logged()
    algorithms = [ExactSoftSPIBB(epsilon=0.5), ApproxSoftSPIBB(epsilon=2.0), PiBSPIBB(n_wedge=5)]
    given = {"baselines": baseline, "gamma": 0.9, "certificate_delta": 0.1}
    dense = improve_many(algorithms, [log, log], **given)
    monkeypatch.setattr(evaluation, "LARGEST_DENSE", 0)
    large = improve_many(algorithms, [log, log], **given)
    np.testing.assert_allclose(large.v, dense.v, atol=1e-10)
    np.testing.assert_allclose(large.probabilities, dense.probabilities, atol=1e-9)
    np.testing.assert_allclose(large.bounds, dense.bounds, atol=1e-7)


def test_steps_reach_every_state_of_a_model_that_is_no_multiple_of_a_part():
    """2,500 states: parts of 1,024 and a rest; every state gains by the better action."""
    rng = np.random.default_rng(0)
    n = 2_500
    rows = rng.integers(n, size=4 * n)
    log = Log.from_arrays(
        state=np.repeat(np.arange(n), 4), action=np.tile([0, 1], 2 * n),
        reward=np.tile([0.0, 1.0], 2 * n), next_state=rows, n_states=n, n_actions=2,
    )  # fmt: skip
    baseline = TabularPolicy.uniform(n, 2)
    result = PiBSPIBB(n_wedge=1).improve(log, baseline=baseline, gamma=0.9)
    np.testing.assert_array_equal(result.policy.probabilities[:, 1], 1.0)
    assert np.abs(result.v - 10.0).max() <= result.values.error < 1e-9
