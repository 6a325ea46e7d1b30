"""The fused kernel: on a GPU where there is one, and in an emulation on the CPU where g++ is."""

import ctypes
import dataclasses
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spibb.deep import train_fused
from spibb.deep.population import Member, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.rules import (
    DQN,
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
)
from spibb.deep.train_cpu import CpuEngine
from spibb.deep.train_fused import FusedEngine
from spibb.deep.training_data import TrainingData
from spibb.errors import SettingsError
from spibb.operators.rows import Operator, step_rows

RULES = [
    DQN(),
    DoubleDQN(),
    RaMDPDQN(kappa=0.3),
    PiBSPIBBDQN(n_wedge=5),
    PiLeqBSPIBBDQN(n_wedge=5),
    ApproxSoftSPIBBDQN(epsilon=0.5),
    ExactSoftSPIBBDQN(epsilon=0.5),
    ExactSoftSPIBBDQN(epsilon=2.0),
    ApproxSoftSPIBBDQN(epsilon=np.inf),
]
SMALL = (2, 16, 40, 10, 3)
PAPER = (4, 32, 128, 32, 9)
HERE = Path(__file__).parent


def training_data(seed, n_rows, n_features, n_actions):
    rng = np.random.default_rng(seed)
    shape = (n_rows, n_actions)
    baseline = rng.dirichlet(np.ones(n_actions), n_rows)
    baseline[:, 1:][rng.random((n_rows, n_actions - 1)) < 0.1] = 0.0
    baseline[:, 0] = 1.0 - baseline[:, 1:].sum(axis=1)
    return TrainingData(
        state=rng.normal(size=(n_rows, n_features)),
        action=rng.integers(n_actions, size=n_rows),
        reward=rng.normal(size=n_rows),
        next_state=rng.normal(size=(n_rows, n_features)),
        terminated=rng.random(n_rows) < 0.1,
        n_here=1.0 + rng.exponential(5.0, n_rows),
        baseline_next=baseline,
        n_next=np.where(rng.random(shape) < 0.2, 0.0, rng.exponential(8.0, shape)),
    )


def population(sizes, *, copies=1, n_rows=(50, 77), **settings):
    """Every rule, on two data sets of different sizes."""
    data = [training_data(k, n, sizes[0], sizes[-1]) for k, n in enumerate(n_rows)]
    members = [Member(k % 2, rule, 99 + k) for k, rule in enumerate(RULES * copies)]
    chosen = TrainingSettings(hidden=sizes[1:-1], **settings)
    return TrainingBatch(data, members, chosen), PopulationState.start(members, sizes)


def on_cpu(trainings, state, n_steps):
    return CpuEngine(trainings).advance(state, n_steps)


def errors(found, expected):
    """Relative error of each member's parameters."""
    apart = np.linalg.norm(found.params - expected.params, axis=1)
    return apart / np.linalg.norm(expected.params, axis=1)


def assert_same(found, expected, members=slice(None)):
    for name in ("params", "target", "v", "diverged_at"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[members])


@pytest.mark.parametrize(
    ("sizes", "change", "what"),
    [
        ((4, 32, 9), {}, "the number of hidden layers is 1, and it takes 3"),
        ((5, 32, 128, 32, 9), {}, "the number of features is 5, and it takes 1 to 4"),
        ((4, 32, 128, 32, 10), {}, "the number of actions is 10, and it takes 1 to 9"),
        ((4, 64, 512, 64, 9), {}, r"its shared memory in bytes is \d+, and it takes 0 to 232448"),
        (PAPER, {"batch_size": 64}, "batch_size is 64, and it takes 32"),
    ],
)
def test_what_does_not_fit_is_named_early_with_another_engine(sizes, change, what):
    trainings, _ = population(sizes, n_passes=9, **change)
    with pytest.raises(SettingsError, match=f"engine 'fused' cannot train this: {what}") as caught:
        FusedEngine(trainings)
    assert 'engine="torch"' in str(caught.value)
    assert FusedEngine.misfit(population(PAPER, n_passes=9)[0]) is None


def test_records_are_packed():
    trainings, _ = population(SMALL)
    packed = train_fused.packed_records(trainings.records)
    assert packed.shape == (127, 32)
    part = trainings.data[1]
    np.testing.assert_array_equal(packed[50:, :2], part.state)
    np.testing.assert_array_equal(packed[50:, 2:4], part.next_state)
    np.testing.assert_array_equal(packed[50:, 8], part.action)
    np.testing.assert_array_equal(packed[50:, 10], 1 - part.terminated)
    np.testing.assert_array_equal(packed[50:, 21:24], part.n_next)
    assert not packed[:, [4, 7, 15, 24, 31]].any()


class Emulator:
    """fused.cu as compiled for the CPU."""

    def __init__(self, library, sizes):
        self._library = ctypes.CDLL(str(library))
        assert self._library.shared_bytes() == train_fused.shared_bytes(sizes)

    def advance(self, trainings, state, n_steps, *, order=0):
        recipes = trainings.recipes
        n_members = len(recipes.seed)
        columns = {
            "records": train_fused.packed_records(trainings.records),
            "order": np.arange(n_members, dtype=np.int32)[::-1].copy(),
            "first_row": recipes.first_row.copy(),
            "n_rows": recipes.n_rows.astype(np.int32),
            "last_step": recipes.n_steps.astype(np.int32),
            "seed": recipes.seed.copy(),
            "operator": recipes.operator.astype(np.int32),
            "is_double": recipes.is_double.astype(np.int32),
            "kappa": recipes.kappa.astype(np.float32),
            "n_wedge": recipes.n_wedge.astype(np.float32),
            "epsilon": recipes.epsilon.astype(np.float32),
            "params": state.params.copy(),
            "target": state.target.copy(),
            "v": state.v.copy(),
            "diverged_at": state.diverged_at.astype(np.int32),
        }
        places = {name: column.ctypes.data for name, column in columns.items()}
        arguments = train_fused.Arguments.of(trainings.settings, state.t, n_steps, places)
        self._library.emulate(ctypes.byref(arguments), n_members, order)
        return PopulationState(
            columns["params"], columns["target"], columns["v"], state.t + n_steps,
            columns["diverged_at"].astype(np.int64),
        )  # fmt: skip

    def steps(self, operator, q, b, counts, n_wedge, epsilon):
        out = np.zeros_like(q)
        places = [part.ctypes.data for part in (q, b, counts, out)]
        rows = StepRows(*places, len(q), int(operator), n_wedge, epsilon)
        self._library.steps(ctypes.byref(rows))
        return out


@pytest.fixture(scope="module")
def emulators(tmp_path_factory):
    """Makes emulations by the sizes of the network, each once."""
    if shutil.which("g++") is None or platform.machine() != "x86_64":
        pytest.skip("the emulation needs g++ on x86-64")

    @cache
    def make(sizes):
        library = tmp_path_factory.mktemp("fused") / "emulator.so"
        source = Path(train_fused.__file__).with_name("fused.cu")
        subprocess.run(
            ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-fno-strict-aliasing",
             "-ffp-contract=off", f'-DFUSED_CU="{source}"', *train_fused.size_macros(sizes),
             str(HERE / "fused_emulator.cpp"), "-o", str(library)],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return Emulator(library, sizes)

    return make


@pytest.fixture
def emulator(emulators):
    return emulators(SMALL)


def test_emulated_kernel_equals_the_compiled_engine(emulator):
    trainings, state = population(SMALL, target_period=4, n_passes=8, annealing_samples=100)
    assert sorted(set(trainings.recipes.n_steps)) == [12, 19]
    found = emulator.advance(trainings, state, 30)
    assert errors(found, on_cpu(trainings, state, 30)).max() < 1e-4


def test_emulated_kernel_has_no_races_and_resumes(emulator):
    trainings, state = population(SMALL, target_period=4)
    expected = emulator.advance(trainings, state, 11, order=1)
    again = emulator.advance(trainings, state, 11, order=2)
    assert_same(again, expected)
    parts = state
    for n_steps in (3, 1, 4, 3):
        parts = emulator.advance(trainings, parts, n_steps)
    assert_same(parts, expected)
    alone = TrainingBatch(trainings.data, trainings.members[6:7], trainings.settings)
    single = emulator.advance(alone, PopulationState.start(alone.members, SMALL), 11)
    assert_same(single, expected, slice(6, 7))


def test_emulated_kernel_stops_where_q_diverges(emulator):
    trainings, state = population(SMALL)
    params = state.params.copy()
    params[3] *= 1e3
    params[4] = np.nan
    state = dataclasses.replace(state, params=params)
    found = emulator.advance(trainings, state, 3)
    np.testing.assert_array_equal(found.diverged_at, on_cpu(trainings, state, 3).diverged_at)
    assert found.diverged_at[4] == 0
    np.testing.assert_array_equal(found.params[4], params[4])


@pytest.fixture
def gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    pytest.importorskip("cuda.bindings")


# The steps, which fused.cu has in its own words


class StepRows(ctypes.Structure):
    """The argument of fused_steps.cu."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "b", "counts", "out")),
        *((name, ctypes.c_int) for name in ("n_rows", "op")),
        *((name, ctypes.c_float) for name in ("n_wedge", "epsilon")),
    )


def exact_rows(n_actions, rng, n_rows=4_000):
    """Rows of few different numbers, all exact in float32: ties everywhere, unseen pairs, zeros."""
    shape = (n_rows, n_actions)
    q = rng.integers(-3, 4, shape) / 4.0
    weights = rng.integers(0, 4, shape) * (rng.random(shape) < 0.8)
    weights[:, -1] += 1
    # Multiples of 1 / 64, the last action taking what is left.
    b = np.floor(64.0 * weights / weights.sum(axis=1, keepdims=True)) / 64.0
    b[:, -1] += 1.0 - b.sum(axis=1)
    counts = rng.choice([0.0, 0.0625, 0.25, 1.0, 4.0, 16.0, 64.0], shape)
    return q, b, counts


def wild_rows(n_actions, rng, n_rows=4_000):
    """Rows of every size: values up to the limit, counts from nearly none to beyond all."""
    shape = (n_rows, n_actions)
    q = rng.normal(size=shape) * 10.0 ** rng.uniform(-6, 6, (n_rows, 1))
    b = rng.dirichlet(np.full(n_actions, 0.3), n_rows)
    counts = np.where(rng.random(shape) < 0.2, 0.0, 10.0 ** rng.uniform(-12, 12, shape))
    return q, b, counts


def by_rows(operator, q, b, counts, n_wedge, epsilon):
    """The row functions of spibb.operators, in float64."""
    with np.errstate(divide="ignore"):
        prices = 1.0 / np.sqrt(counts)
    errors = prices if operator.needs.budget else np.where(counts >= n_wedge, 0.0, np.inf)
    parts = [np.ascontiguousarray(part, dtype=np.float64) for part in (q, b, errors)]
    out = np.empty(parts[0].shape)
    step_rows(int(operator), *parts, np.full(len(q), float(epsilon)), parts[0], out)
    return out


def check_steps(apply, operator, n_actions):
    """Compare a way to apply a step of fused.cu with the row functions."""
    rng = np.random.default_rng(7)
    for epsilon in (0.0, 0.125, 0.5, 2.0, 1e6, np.inf):
        rows = [np.float32(part) for part in exact_rows(n_actions, rng)]
        found = apply(operator, *rows, 4.0, epsilon)
        np.testing.assert_allclose(found, by_rows(operator, *rows, 4.0, epsilon), atol=1e-5)
        rows = [np.float32(part) for part in wild_rows(n_actions, rng)]
        found = apply(operator, *rows, 4.0, epsilon).astype(np.float64)
        expected = by_rows(operator, *rows, 4.0, epsilon)
        np.testing.assert_allclose(found.sum(axis=1), rows[1].sum(axis=1), atol=1e-4)
        # Rounding turns a close choice here and there, between actions that are as good.
        apart = np.abs(found - expected).max(axis=1)
        assert (apart > 1e-3).mean() < 0.002
        spread = np.ptp(rows[0], axis=1)
        gap = ((found - expected) * rows[0]).sum(axis=1) / spread
        assert np.abs(gap).max() < (0.05 if operator is Operator.SOFT_APPROX else 1e-3)


@pytest.mark.parametrize("sizes", [SMALL, PAPER], ids=str)
@pytest.mark.parametrize("operator", sorted(FusedEngine.carries.operators), ids=lambda op: op.name)
def test_emulated_steps_are_those_of_the_operators(emulators, operator, sizes):
    check_steps(emulators(sizes).steps, operator, sizes[-1])


@pytest.mark.parametrize("sizes", [SMALL, PAPER], ids=str)
@pytest.mark.parametrize("operator", sorted(FusedEngine.carries.operators), ids=lambda op: op.name)
def test_gpu_steps_are_those_of_the_operators(gpu, operator, sizes):
    import torch

    device, n_bytes = torch.device("cuda", 0), train_fused.shared_bytes(sizes)
    more = (HERE / "fused_steps.cu").read_text()
    kernel = train_fused.load_function(sizes, device, (), "steps", more)

    def apply(operator, q, b, counts, n_wedge, epsilon):
        tensors = [torch.tensor(part, device=device) for part in (q, b, counts, np.zeros_like(q))]
        places = [tensor.data_ptr() for tensor in tensors]
        rows = StepRows(*places, len(q), int(operator), n_wedge, epsilon)
        train_fused.launch(kernel, (-(-len(q) // 32), 32), n_bytes, device, rows)
        return tensors[3].cpu().numpy()

    check_steps(apply, operator, sizes[-1])


@pytest.mark.parametrize("sizes", [SMALL, PAPER, (4, 32, 128, 32, 4), (1, 20, 64, 32, 6)])
def test_gpu_equals_the_compiled_engine(gpu, sizes):
    trainings, state = population(sizes, copies=4, n_passes=1_000)
    engine = FusedEngine(trainings)
    found = engine.advance(state, 3)
    expected = on_cpu(trainings, state, 3)
    assert np.median(errors(found, expected)) < 1e-5
    assert errors(found, expected).max() < 1e-3
    # Rounding turns a tie here and there, and then members part; most stay close for a while.
    later = errors(engine.advance(found, 90), on_cpu(trainings, found, 90))
    assert np.median(later) < 1e-4


def test_gpu_stays_with_the_compiled_engine_for_hundreds_of_steps(gpu):
    # As many rows as the paper's largest data set; few are learnt by heart, and Q grows fast there.
    trainings, state = population(PAPER, copies=4, n_rows=(10_000, 9_000), n_passes=1)
    found = FusedEngine(trainings).advance(state, 250)
    assert np.median(errors(found, on_cpu(trainings, state, 250))) < 1e-5


def test_gpu_repeats_resumes_and_knows_no_neighbours(gpu):
    trainings, state = population(PAPER, copies=30, n_passes=200)
    engine = FusedEngine(trainings)
    expected = engine.advance(state, 500)
    assert_same(engine.advance(state, 500), expected)
    parts = state
    for n_steps in (133, 7, 360):
        parts = engine.advance(parts, n_steps)
    assert_same(parts, expected)
    alone = TrainingBatch(trainings.data, trainings.members[140:141], trainings.settings)
    single = FusedEngine(alone).advance(PopulationState.start(alone.members, PAPER), 500)
    assert_same(single, expected, slice(140, 141))


def test_gpu_stops_where_q_diverges(gpu):
    trainings, state = population(PAPER)
    params = state.params.copy()
    params[3] *= 1e3
    params[4] = np.nan
    state = dataclasses.replace(state, params=params)
    found = FusedEngine(trainings).advance(state, 3)
    np.testing.assert_array_equal(found.diverged_at[[3, 4]], [0, 0])
    assert (found.diverged_at[[0, 1, 2, 5, 6, 7, 8]] == -1).all()


def test_a_gpu_asked_for_and_absent():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    trainings, _ = population(PAPER)
    with pytest.raises(SettingsError, match="torch finds none"):
        FusedEngine(trainings)
