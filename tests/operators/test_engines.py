"""Operators x engines: an engine does as an operator's slow twin does, or refuses it by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from spibb import operators
from spibb.compiled.random_numbers import minibatch
from spibb.deep.network import Network, first_parameters
from spibb.deep.policy import NetworkPolicy, PopulationPolicy
from spibb.deep.population import Member, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import Rule, TargetStep
from spibb.deep.targets import ENGINE as ACTING
from spibb.deep.targets import improved_policy, targets
from spibb.deep.train_cpu import CpuEngine, measure
from spibb.deep.train_fused import FusedEngine
from spibb.deep.train_torch import TorchEngine
from spibb.deep.training_data import TrainingData
from spibb.envs.helicopter import Helicopter
from spibb.errors import SettingsError
from spibb.operators.engine import FROM_COUNTS
from spibb.operators.rows import Operator, step_rows
from spibb.testing import reference, reference_successors

EVERY = pytest.mark.parametrize("operator", Operator, ids=lambda operator: operator.name)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

N_WEDGE, EPSILON = 8.0, 0.4
RNG = np.random.default_rng(0)
Q, Q_BASELINE = RNG.normal(size=(2, 30, 4)).astype(np.float32)
BASELINE = RNG.dirichlet(np.ones(4), 30).astype(np.float32)
COUNTS = RNG.exponential(10, (30, 4)).astype(np.float32)
COUNTS[RNG.random(COUNTS.shape) < 0.1] = 0.0

TWINS = {
    Operator.GREEDY: lambda q, b, e, g: reference.greedy_row(q),
    Operator.PI_B: lambda q, b, e, g: reference.pi_b_row(q, b, np.isfinite(e)),
    Operator.PI_LEQ_B: lambda q, b, e, g: reference.pi_leq_b_row(q, b, np.isfinite(e)),
    Operator.SOFT_EXACT: lambda q, b, e, g: reference.soft_exact_row(q, b, e, EPSILON),
    Operator.SOFT_APPROX: lambda q, b, e, g: reference.soft_approx_row(q, b, e, EPSILON),
    Operator.LOWER_APPROX: lambda q, b, e, g: reference_successors.lower_approx_row(
        q, b, e, EPSILON
    ),
    Operator.ADV_APPROX: lambda q, b, e, g: reference_successors.adv_approx_row(
        q, b, e, EPSILON, g
    ),
    Operator.GREEDY_ALLOWED: lambda q, b, e, g: (
        reference.greedy_row(np.where(np.isfinite(e), q, -np.inf)) if np.isfinite(e).any() else b
    ),
}
# These have a linear program for a twin, which tells the value and not the row.
BEST = {
    Operator.LOWER_EXACT: lambda q, b, e, g: reference_successors.best_value(
        q, b, e, EPSILON, is_lower=True
    ),
    Operator.ADV_EXACT: lambda q, b, e, g: reference_successors.best_value(q, b, e, EPSILON, g=g),
}


class AnyRule(Rule):
    """A rule of one's own, by any operator."""

    id = "any-rule"

    def __init__(self, operator):
        object.__setattr__(self, "operator", operator)

    def step(self):
        return TargetStep(self.operator, n_wedge=N_WEDGE, epsilon=EPSILON)


def errors_of(operator):
    """The errors that an operator wants from the pseudo-counts."""
    with np.errstate(divide="ignore"):
        prices = 1 / np.sqrt(COUNTS.astype(np.float64))
    return prices if operator.needs.budget else np.where(COUNTS >= N_WEDGE, 0.0, np.inf)


def assert_like_the_twin(operator, found, tolerance=1e-6):
    found = np.asarray(found, dtype=np.float64)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    rows = (Q, BASELINE, errors_of(operator), Q_BASELINE)
    for new, q, b, e, g in zip(found, *(part.astype(np.float64) for part in rows), strict=True):
        if operator in BEST:
            assert q @ new == pytest.approx(BEST[operator](q, b / b.sum(), e, g), abs=tolerance)
        else:
            expected = TWINS[operator](q, b / b.sum(), e, g)
            np.testing.assert_allclose(new, expected, atol=tolerance)


def test_every_operator_has_a_twin():
    assert {*TWINS, *BEST} == set(Operator)
    assert set(Operator) - FROM_COUNTS == {Operator.ADV_EXACT, Operator.ADV_APPROX}


# Rows


@EVERY
def test_rows(operator):
    parts = [part.astype(np.float64) for part in (Q, BASELINE, errors_of(operator))]
    out = np.empty(Q.shape)
    step_rows(int(operator), *parts, np.full(30, EPSILON), Q_BASELINE.astype(np.float64), out)
    assert_like_the_twin(operator, out)
    parts = (Q, BASELINE, errors_of(operator), EPSILON, Q_BASELINE)
    np.testing.assert_array_equal(operators.apply(operator, *parts), out.astype(np.float32))


@EVERY
def test_what_an_operator_needs_is_asked_for(operator):
    needs = operator.needs
    given = {"baseline": BASELINE, "errors": errors_of(operator), "q_baseline": Q_BASELINE}
    needed = {"baseline": needs.errors, "errors": needs.errors, "q_baseline": needs.q_baseline}
    for name, is_needed in needed.items():
        some = {other: part for other, part in given.items() if other != name}
        if is_needed:
            with pytest.raises(SettingsError, match=f"{name} is None.*{operator.name} needs"):
                operators.apply(operator, Q, epsilon=EPSILON, **some)
        else:
            found = operators.apply(operator, Q, epsilon=EPSILON, **some)
            assert_like_the_twin(operator, found)


def test_rows_in_the_simulator_of_a_gpu():
    pytest.importorskip("spibb.operators.cuda")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("rows_in_simulator.py"))],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {operator.name for operator in Operator}
    assert max(found.values()) < 1e-12


@needs_gpu
@EVERY
def test_rows_on_a_gpu(operator):
    parts = (Q, BASELINE, errors_of(operator))
    tensors = [torch.tensor(part, device="cuda") for part in parts]
    found = operators.apply(operator, *tensors, EPSILON, torch.tensor(Q_BASELINE, device="cuda"))
    assert found.is_cuda
    assert_like_the_twin(operator, found.cpu().numpy(), tolerance=1e-5)


# Acting


def refused(operator, engine):
    """What is raised by an engine that does not carry an operator."""
    return pytest.raises(
        SettingsError, match=f"{engine.name} does not carry the operator {operator.name}.*To fix it"
    )


@EVERY
def test_acting(operator):
    rule = AnyRule(operator)
    network = Network.from_flat(first_parameters([0], (4, 8, 9))[0], (4, 8, 9))
    helicopter = Helicopter()
    data = helicopter.collect(helicopter.baseline(), 60, np.random.default_rng(0))
    counts, states = KernelCounts().fit(data), data.state[:20]

    if operator not in ACTING.operators:
        for act in (
            lambda: improved_policy(rule, Q, baseline=BASELINE, counts=COUNTS),
            lambda: NetworkPolicy(network, rule, helicopter.baseline(), counts),
        ):
            with refused(operator, ACTING):
                act()
        return
    assert_like_the_twin(operator, improved_policy(rule, Q, baseline=BASELINE, counts=COUNTS))
    tensors = [torch.from_numpy(part) for part in (Q, BASELINE, COUNTS)]
    found = improved_policy(rule, tensors[0], baseline=tensors[1], counts=tensors[2])
    assert_like_the_twin(operator, found.numpy())
    alone = NetworkPolicy(network, rule, helicopter.baseline(), counts)
    both = PopulationPolicy([helicopter.baseline(), alone])
    np.testing.assert_array_equal(
        both.action_probabilities(np.stack([states] * 2))[1], alone.action_probabilities(states)
    )


# Training


def trainings_of(operator, sizes):
    rng = np.random.default_rng(1)
    data = TrainingData(
        state=rng.random((30, sizes[0])),
        action=rng.integers(0, 4, 30),
        reward=rng.normal(size=30),
        next_state=rng.random((30, sizes[0])),
        terminated=rng.random(30) < 0.2,
        n_here=COUNTS[:, 0] + 1,
        baseline_next=BASELINE,
        n_next=COUNTS,
    )
    settings = TrainingSettings(hidden=sizes[1:-1], n_passes=10, target_period=2)
    members = [Member(0, AnyRule(operator), 5)]
    trainings = TrainingBatch([data], members, settings)
    return trainings, PopulationState.start(members, sizes)


def loss_of(trainings, params):
    """Loss of the first minibatch, from the targets as functions of arrays."""
    (data,), settings = trainings.data, trainings.settings
    rows = minibatch(5, 0, batch_size=settings.batch_size, n=len(data))
    network = Network.from_flat(params, trainings.sizes)
    q_next = network.q(data.next_state[rows])
    y = targets(
        trainings.members[0].rule, reward=data.reward[rows], terminated=data.terminated[rows],
        gamma=settings.gamma, q_online=q_next, q_target=q_next,
        baseline_next=data.baseline_next[rows], n_next=data.n_next[rows],
    )  # fmt: skip
    taken = network.q(data.state[rows])[np.arange(len(rows)), data.action[rows]]
    return np.mean((taken - y) ** 2)


@EVERY
def test_training_on_the_cpu(operator):
    trainings, state = trainings_of(operator, (3, 6, 4))
    if operator not in CpuEngine.carries.operators:
        with refused(operator, CpuEngine.carries):
            CpuEngine(trainings)
        return
    found = measure(trainings, state)
    np.testing.assert_allclose(found[0, 0], loss_of(trainings, state.params[0]), rtol=1e-5)


def assert_trains_as_the_cpu_does(engine, trainings, state):
    found, expected = engine.advance(state, 5), CpuEngine(trainings).advance(state, 5)
    np.testing.assert_allclose(found.params, expected.params, rtol=2e-3, atol=2e-4)
    assert not np.array_equal(expected.params, state.params)


@EVERY
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_training_with_torch(operator, device):
    trainings, state = trainings_of(operator, (3, 6, 4))
    if operator not in TorchEngine.carries.operators:
        with refused(operator, TorchEngine.carries):
            TorchEngine(trainings, device)
        return
    assert_trains_as_the_cpu_does(TorchEngine(trainings, device), trainings, state)


@EVERY
def test_training_in_one_kernel(operator):
    trainings, state = trainings_of(operator, (3, 32, 64, 32, 4))
    if operator not in FusedEngine.carries.operators:
        # Whether there is a GPU is not even asked.
        with refused(operator, FusedEngine.carries):
            FusedEngine(trainings)
        assert FusedEngine.misfit(trainings) == f"it does not carry the operator {operator.name}"
        return
    if not torch.cuda.is_available():
        pytest.skip("no GPU here; tests/deep/test_train_fused.py emulates the kernel")
    assert_trains_as_the_cpu_does(FusedEngine(trainings), trainings, state)
