"""Public functions with any numbers: a policy whose rows sum to one, or an error of the package."""

import numpy as np
import pytest
from fuzzing import cases, limited, mutated, numbers
from hypothesis import given
from hypothesis import strategies as st

from spibb import Log, TabularPolicy, operators
from spibb.algorithms.registry import ALGORITHMS
from spibb.certify import audit
from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.network import Network
from spibb.deep.policy import NetworkPolicy
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import PiBSPIBBDQN
from spibb.deep.transitions import Transitions
from spibb.errors import SpibbError
from spibb.ope import evaluate_policy

STEPS = {
    "soft_exact_step": 3, "soft_approx_step": 3, "lower_exact_step": 3, "lower_approx_step": 3,
    "adv_exact_step": 4, "adv_approx_step": 4,
}  # fmt: skip


def rows(n_actions):
    return st.lists(numbers, min_size=n_actions, max_size=n_actions)


@st.composite
def baselines(draw, n_actions):
    if draw(st.integers(0, 5)) == 0:
        return draw(rows(n_actions))
    weights = draw(st.lists(st.integers(0, 4), min_size=n_actions, max_size=n_actions))
    return (np.array(weights) / (sum(weights) or 1)).tolist()


@given(st.data())
@cases(300)
def test_operators(data):
    name = data.draw(st.sampled_from(sorted(STEPS)))
    n = data.draw(st.integers(1, 5))
    q, baseline = data.draw(rows(n)), data.draw(baselines(n))
    errors = data.draw(st.one_of(rows(n), st.just([1.0] * n)))
    more = [data.draw(rows(n))] if STEPS[name] == 4 else []
    try:
        with limited():
            found = getattr(operators, name)(q, baseline, errors, data.draw(numbers), *more)
    except SpibbError:
        return
    assert found.sum() == pytest.approx(1.0, abs=1e-5)
    assert (found >= -1e-12).all()


@st.composite
def logs(draw):
    n = draw(st.integers(1, 12))
    whole = st.integers(-1, 3) if draw(st.integers(0, 9)) == 0 else st.integers(0, 2)
    columns = {
        name: draw(st.lists(values, min_size=n, max_size=n))
        for name, values in (
            ("state", whole), ("action", st.integers(0, 1)),
            ("reward", numbers if draw(st.integers(0, 3)) == 0 else st.integers(-2, 2).map(float)),
            ("episode", st.integers(0, 3)),
        )
    }  # fmt: skip
    for name, values in (("next_state", st.integers(-1, 2)), ("terminated", st.booleans())):
        if draw(st.booleans()):
            columns[name] = draw(st.lists(values, min_size=n, max_size=n))
    return columns


def settled(found):
    table = found.policy.probabilities
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)
    assert (table >= 0).all()
    bound = found.certificate.bound
    assert bound is None or not np.isnan(bound)


@given(st.data())
@cases(80)
def test_every_algorithm(data):
    columns = data.draw(logs())
    algorithm = ALGORITHMS[data.draw(st.sampled_from(sorted(ALGORITHMS)))]
    gamma = data.draw(st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0]))
    try:
        with limited(), np.errstate(all="ignore"):
            log = Log.from_arrays(**columns, n_states=3, n_actions=2)
            settled(algorithm().improve(log, baseline=TabularPolicy.uniform(3, 2), gamma=gamma))
    except SpibbError:
        pass


@given(st.data())
@cases(60)
def test_evaluation_and_audit(data):
    columns = data.draw(logs())
    share = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    policy = TabularPolicy([[share, 1.0 - share]] * 3)
    asked = {"baseline": TabularPolicy.uniform(3, 2), "policy": policy}
    gamma = data.draw(st.sampled_from([0.0, 0.9, 1.0]))
    try:
        with limited(), np.errstate(all="ignore"):
            log = Log.from_arrays(**columns, n_states=3, n_actions=2)
            found = evaluate_policy(
                log, **asked, gamma=gamma,
                bound=data.draw(st.sampled_from(["bca", "student-t", "betting", "concentration"])),
                delta=data.draw(st.one_of(st.just(0.05), numbers)),
            )  # fmt: skip
            for part in (found.baseline, *found.estimates):
                assert not part.interval[0] > part.interval[1]
            found.to_dict()
            audit(log, **asked, gamma=gamma).to_dict()
    except SpibbError:
        pass


@given(st.data())
@cases(100)
def test_networks(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    path = folder / "network.safetensors"
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]
    Network([w.astype(np.float32) for w in weights], [np.zeros(4, "f4"), np.zeros(2, "f4")]).write(
        path
    )
    path.write_bytes(mutated(path.read_bytes(), data.draw))
    try:
        with limited():
            Network.from_file(path)
    except SpibbError:
        pass


@given(st.data())
@cases(100)
def test_policies_of_networks(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "policy"
    states = np.random.default_rng(0).random((9, 3))
    rows = Transitions.from_arrays(states, [0, 1, 1] * 3, np.ones(9), states, np.zeros(9))
    network = Network([np.ones((2, 3))], [np.zeros(2)])
    counts = KernelCounts().fit(rows)
    policy = NetworkPolicy(network, PiBSPIBBDQN(), SoftmaxNetwork(network, 1.0), counts, [1, 2, 3])
    policy.write(folder, overwrite=True)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    path.write_bytes(mutated(path.read_bytes(), data.draw))
    try:
        with limited(), np.errstate(all="ignore"):
            NetworkPolicy.read(folder).action_probabilities(states)
    except SpibbError:
        pass
