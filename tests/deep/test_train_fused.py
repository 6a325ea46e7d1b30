"""The fused kernel: on a GPU where there is one, and in an emulation on the CPU where g++ is."""

import ctypes
import dataclasses
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from spibb.deep import train_cpu, train_fused
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
    return Trainings.of(data, members, chosen), PopulationState.start(members, sizes)


def errors(found, expected):
    """Relative error of each member's parameters."""
    apart = np.linalg.norm(found.params - expected.params, axis=1)
    return apart / np.linalg.norm(expected.params, axis=1)


def assert_same(found, expected, members=slice(None)):
    for name in ("params", "target", "v", "diverged_at"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[members])


def test_what_does_not_fit_names_another_engine():
    settings = TrainingSettings()
    for sizes, what in (
        ((4, 32, 9), "1 hidden layers"),
        ((5, 32, 128, 32, 9), "5 features"),
        ((4, 32, 128, 32, 10), "10 actions"),
        ((4, 64, 512, 64, 9), "bytes"),
    ):
        assert not train_fused.fits(sizes, settings)
        with pytest.raises(SettingsError, match=what) as caught:
            train_fused.check_fit(sizes, settings)
        assert 'engine="torch"' in str(caught.value)
    with pytest.raises(SettingsError, match="batch_size is 64"):
        train_fused.check_fit(PAPER, TrainingSettings(batch_size=64))
    assert train_fused.fits(PAPER, settings)


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

    def advance(self, trainings, state, n_steps, *, order=0, record_every=0):
        recipes = trainings.recipes
        n_members = len(recipes.seed)
        first = -(-state.t // record_every) if record_every else 0
        last = -(-(state.t + n_steps) // record_every) if record_every else 0
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
            "curves": np.full((n_members, last - first, 2), np.nan, dtype=np.float32),
        }
        arguments = train_fused.Arguments.of(
            trainings.settings, state.t, n_steps, record_every, last - first
        )
        for name, column in columns.items():
            setattr(arguments, name, column.ctypes.data)
        self._library.emulate(ctypes.byref(arguments), n_members, order)
        after = PopulationState(
            columns["params"], columns["target"], columns["v"], state.t + n_steps,
            columns["diverged_at"].astype(np.int64),
        )  # fmt: skip
        return after, columns["curves"]


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
    found, curves = emulator.advance(trainings, state, 30, record_every=3)
    expected = train_cpu.advance(trainings, state, 30)
    assert errors(found, expected).max() < 1e-4
    # The points of a curve are those that training.py measures from outside.
    at = train_cpu.advance(trainings, state, 9)
    measured = train_cpu.measure(trainings, at)
    measured = np.asarray(measured[0] if isinstance(measured, tuple) else measured)
    np.testing.assert_allclose(curves[:, 3], measured.T, rtol=1e-4, atol=1e-5)
    assert np.isnan(curves[::2, 4:]).all()
    assert np.isfinite(curves[1::2, :7]).all()


def test_emulated_kernel_has_no_races_and_resumes(emulator):
    trainings, state = population(SMALL, target_period=4)
    expected, _ = emulator.advance(trainings, state, 11, order=1)
    again, _ = emulator.advance(trainings, state, 11, order=2)
    assert_same(again, expected)
    parts = state
    for n_steps in (3, 1, 4, 3):
        parts, _ = emulator.advance(trainings, parts, n_steps)
    assert_same(parts, expected)
    alone = Trainings.of(trainings.data, trainings.members[6:7], trainings.settings)
    single, _ = emulator.advance(alone, PopulationState.start(alone.members, SMALL), 11)
    assert_same(single, expected, slice(6, 7))


def test_emulated_kernel_stops_where_q_diverges(emulator):
    trainings, state = population(SMALL)
    params = state.params.copy()
    params[3] *= 1e3
    params[4] = np.nan
    state = dataclasses.replace(state, params=params)
    found, _ = emulator.advance(trainings, state, 3)
    np.testing.assert_array_equal(
        found.diverged_at, train_cpu.advance(trainings, state, 3).diverged_at
    )
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
    engine = train_fused.FusedEngine(trainings)
    found = engine.advance(trainings, state, 3)
    expected = train_cpu.advance(trainings, state, 3)
    assert np.median(errors(found, expected)) < 1e-5
    assert errors(found, expected).max() < 1e-3
    # Rounding turns a tie here and there, and then members part; most stay close for a while.
    later = errors(engine.advance(trainings, found, 90), train_cpu.advance(trainings, found, 90))
    assert np.median(later) < 1e-4


def test_gpu_stays_with_the_compiled_engine_for_hundreds_of_steps(gpu):
    # As many rows as the paper's largest data set; few are learnt by heart, and Q grows fast there.
    trainings, state = population(PAPER, copies=4, n_rows=(10_000, 9_000), n_passes=1)
    found = train_fused.FusedEngine(trainings).advance(trainings, state, 250)
    assert np.median(errors(found, train_cpu.advance(trainings, state, 250))) < 1e-5


def test_gpu_repeats_resumes_and_knows_no_neighbours(gpu):
    trainings, state = population(PAPER, copies=30, n_passes=200)
    engine = train_fused.FusedEngine(trainings)
    expected = engine.advance(trainings, state, 500)
    assert_same(engine.advance(trainings, state, 500), expected)
    parts = state
    for n_steps in (133, 7, 360):
        parts = engine.advance(trainings, parts, n_steps)
    assert_same(parts, expected)
    alone = Trainings.of(trainings.data, trainings.members[140:141], trainings.settings)
    single = train_fused.FusedEngine(alone).advance(
        alone, PopulationState.start(alone.members, PAPER), 500
    )
    assert_same(single, expected, slice(140, 141))


def test_gpu_stops_where_q_diverges(gpu):
    trainings, state = population(PAPER)
    params = state.params.copy()
    params[3] *= 1e3
    params[4] = np.nan
    state = dataclasses.replace(state, params=params)
    found = train_fused.FusedEngine(trainings).advance(trainings, state, 3)
    np.testing.assert_array_equal(found.diverged_at[[3, 4]], [0, 0])
    assert (found.diverged_at[[0, 1, 2, 5, 6, 7, 8]] == -1).all()


def test_a_gpu_asked_for_and_absent():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    trainings, _ = population(PAPER)
    with pytest.raises(SettingsError, match="torch finds none"):
        train_fused.FusedEngine(trainings)
    with pytest.raises(SettingsError, match="on 'cpu'"):
        train_fused.train_fused(
            torch.zeros(3, 32), trainings.recipes, (np.zeros(1),) * 3, sizes=PAPER,
            settings=trainings.settings, t0=0, n_steps=1,
        )  # fmt: skip
