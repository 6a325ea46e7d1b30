"""The fused kernel: on a GPU where there is one, and in an emulation on the CPU where g++ is."""

import ctypes
import dataclasses
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from spibb.deep import train_fused
from spibb.deep.population import Member, PopulationState, Trainings, TrainingSettings
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
    return Trainings(data, members, chosen), PopulationState.start(members, sizes)


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
            "first_row": recipes.first_row,
            "n_rows": recipes.n_rows.astype(np.int32),
            "last_step": recipes.n_steps.astype(np.int32),
            "seed": recipes.seed,
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


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    if shutil.which("g++") is None or platform.machine() != "x86_64":
        pytest.skip("the emulation needs g++ on x86-64")
    library = tmp_path_factory.mktemp("fused") / "emulator.so"
    source = Path(train_fused.__file__).with_name("fused.cu")
    subprocess.run(
        ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-fno-strict-aliasing",
         "-ffp-contract=off", f'-DFUSED_CU="{source}"', *train_fused.size_macros(SMALL),
         str(HERE / "fused_emulator.cpp"), "-o", str(library)],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return Emulator(library, SMALL)


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
    alone = Trainings(trainings.data, trainings.members[6:7], trainings.settings)
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
    alone = Trainings(trainings.data, trainings.members[140:141], trainings.settings)
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
    with pytest.raises(SettingsError, match="on 'cpu'"):
        FusedEngine(trainings, "cpu")
