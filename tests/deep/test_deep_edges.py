"""What lies at the edges of types and ranges is refused in words, or taken as it is meant."""

import dataclasses
import json
import math
import os
import sys

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from small_problems import damage

from spibb.deep import (
    DQN,
    ExactSoftSPIBBDQN,
    KernelCounts,
    Member,
    Network,
    NetworkPolicy,
    PiBSPIBBDQN,
    RaMDPDQN,
    SoftmaxNetwork,
    TrainingData,
    TrainingSettings,
    Transitions,
    choose_width,
    train_population,
    training,
)
from spibb.deep.network import read_arrays, write_arrays
from spibb.deep.population import TrainingBatch
from spibb.deep.rules import Rule
from spibb.deep.targets import improved_policy, targets
from spibb.deep.train_cpu import CpuEngine
from spibb.deep.train_fused import FusedEngine
from spibb.errors import (
    DataError,
    MissingDependencyError,
    OutputError,
    SettingsError,
    SpibbError,
    checked_number,
    checked_whole,
)

RULE = ExactSoftSPIBBDQN(epsilon=0.5)
SETTINGS = TrainingSettings(hidden=(4,), n_passes=2, batch_size=4)
NETWORK = Network([np.ones((2, 2))], [np.zeros(2)])
HUGE = pytest.param(10**400, id="huge")
STATES = np.random.default_rng(1).random((5, 2)).astype(np.float32)


def columns(n=20, **change):
    rng = np.random.default_rng(0)
    found = {
        "state": rng.random((n, 2)).astype(np.float32),
        "action": rng.integers(0, 2, n),
        "reward": rng.random(n).astype(np.float32),
        "next_state": rng.random((n, 2)).astype(np.float32),
        "terminated": rng.random(n) < 0.2,
    }
    return found | change


def transitions(**change):
    return Transitions.from_arrays(**columns(**change), n_actions=2)


def uniform(states):
    return np.full((len(states), 2), 0.5)


DATA = transitions()
TRAINING = TrainingData.from_transitions(DATA, uniform, KernelCounts())
MEMBER = Member(0, RULE, 0)
POLICY = NetworkPolicy(NETWORK, RULE, SoftmaxNetwork(NETWORK, 1.0), KernelCounts().fit(DATA))
WIDE = dataclasses.replace(POLICY, pseudo_counts=KernelCounts(3.0).fit(DATA))


def train(**change):
    call = {"data": TRAINING, "members": [MEMBER], "settings": SETTINGS, "engine": "cpu"}
    return train_population(**call | change)


@pytest.mark.parametrize("value", ["0.5", b"1", bytearray(b"1"), None, HUGE, [1], 1j])
def test_what_is_no_number(value):
    with pytest.raises(SettingsError, match=r"epsilon is .*; expected a number"):
        checked_number(value, "epsilon")


@pytest.mark.parametrize(
    "value", ["1", None, 1.0, True, np.True_, 0, -1, 2**53 + 1, HUGE, np.array([3]), math.nan]
)
def test_what_is_no_whole_number(value):
    with pytest.raises(SettingsError, match="n_steps is"):
        checked_whole(value, "n_steps")


# Transitions


@pytest.mark.parametrize(
    "action", [np.uint64(2**64 - 1), np.inf, 1e30, 2.0**31, np.int64(2**31), np.uint64(2**63)]
)
def test_actions_do_not_wrap_around(action):
    with pytest.raises(DataError, match=r"action is .*first at row 1.*below 2\^31"):
        transitions(n=2, action=np.array([0, action], dtype=np.asarray(action).dtype))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint64, np.float16])
def test_actions_of_every_kind(kind):
    found = transitions(action=columns()["action"].astype(kind))
    np.testing.assert_array_equal(found.action, DATA.action)


@pytest.mark.parametrize(
    ("terminated", "message"),
    [
        (5, "terminated is of int64; expected booleans"),
        (np.full((20, 3), 2), r"terminated is 2 \(first at row 0, coordinate 0\)"),
        (pd.Series([True, pd.NA] * 10, dtype="boolean"), "terminated is of object"),
        (0, r"terminated has shape \(\)"),
    ],
)
def test_flags(terminated, message):
    with pytest.raises(DataError, match=message):
        transitions(terminated=terminated)


def test_numbers_beyond_float64():
    with pytest.raises(DataError, match="observations has values that are not numbers"):
        NETWORK.q([10**400, 0])


def test_tensors_of_every_kind():
    ready = {name: torch.tensor(column) for name, column in columns().items()}
    ready["state"].requires_grad_()
    found = Transitions.from_arrays(**ready, n_actions=2)
    np.testing.assert_array_equal(found.state, DATA.state)
    np.testing.assert_array_equal(found.terminated, DATA.terminated)
    short = transitions(state=ready["state"].bfloat16())
    np.testing.assert_array_equal(short.state, ready["state"].bfloat16().detach().float())
    layer = torch.nn.Linear(2, 3)
    found = Network([layer.weight], [layer.bias]).q(STATES)
    np.testing.assert_allclose(found, layer(torch.tensor(STATES)).detach(), atol=1e-6)
    for part in (layer, torch.eye(2).to_sparse()):
        with pytest.raises(DataError, match="not numbers"):
            Network([part], [layer.bias])
        with pytest.raises(DataError, match="no column of numbers"):
            transitions(action=part)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_counts_of_short_and_long_tensors(kind):
    fitted, states = KernelCounts().fit(DATA), torch.tensor(STATES, dtype=kind, requires_grad=True)
    expected = fitted.counts(states.detach().double().numpy())
    np.testing.assert_array_equal(fitted.counts(states), expected)


# Pseudo-counts


@pytest.mark.parametrize("length", [1.1e-25, 1e-16, 2e20, 1e16, "0.3"])
def test_lengths_whose_squares_leave_float32(length):
    for make in (KernelCounts, lambda width: choose_width(DATA, [0.2, width])):
        with pytest.raises(SettingsError, match="width is"):
            make(length)


@pytest.mark.parametrize("width", [1e-15, 1e-8, 1e8, 1e15])
def test_counts_at_the_extremes(width):
    """Half a width away counts one half, whatever the width."""
    state = np.array([[0.0, 0.0], [width / 2, 0.0]])
    data = transitions(
        n=2, state=state, next_state=state, action=np.array([0, 1]), terminated=[0, 1]
    )
    found = KernelCounts(np.float64(width)).fit(data).counts(state)
    np.testing.assert_allclose(found, [[1, 0.5], [0.5, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": None}, "the transitions are NoneType"),
        ({"n_queries": 1.5}, "n_queries is 1.5"),
        ({"n_queries": None}, "n_queries is None"),
        ({"n_queries": "a"}, "n_queries is 'a'"),
        ({"widths": [[0.1, 0.2], [0.3]]}, r"width is \[0.1, 0.2\]"),
        ({"widths": None}, "width is None"),
    ],
)
def test_choosing_a_width(change, message):
    with pytest.raises(SpibbError, match=message):
        choose_width(**{"transitions": DATA} | change)


class Own:
    """Pseudo-counts of the user's, fitted."""

    n_actions = 2

    def __init__(self, answer):
        self.counts = answer


OWN = {
    "NaN": (lambda x: np.full((len(x), 2), np.nan), r"are \[nan, nan\] \(first at row 0\)"),
    "negative": (lambda x: np.arange(2 * len(x))[::-1].reshape(-1, 2) - 1.0, r"are \[0.0, -1.0\]"),
    "shape": (lambda x: np.ones(len(x)), r"have shape \(\d+,\); expected \(\d+, 2\)"),
    "nothing": (lambda x: None, r"have shape \(\)"),
    "text": (lambda x: [["a", "b"]] * len(x), "the pseudo-counts has values that are not numbers"),
    "a tensor": (lambda x: torch.full((len(x), 2), -1.0), r"are \[-1.0, -1.0\]"),
}


@pytest.mark.parametrize(("answer", "message"), OWN.values(), ids=OWN)
def test_counts_of_ones_own_are_looked_at(answer, message):
    with pytest.raises(DataError, match=message):
        TrainingData.from_transitions(DATA, uniform, Own(answer))
    with pytest.raises(DataError, match=message):
        dataclasses.replace(POLICY, pseudo_counts=Own(answer)).act(STATES)


def test_counts_of_ones_own_that_are_good():
    own = Own(lambda x: np.ones((len(x), 2)))
    assert (TrainingData.from_transitions(DATA, uniform, own).n_next == 1).all()
    acting = dataclasses.replace(POLICY, pseudo_counts=own)
    np.testing.assert_allclose(acting.action_probabilities(STATES).sum(-1), 1, atol=1e-6)


def test_counts_without_actions():
    class Nameless:
        def counts(self, states):
            return np.ones((len(states), 2))

    class Forgetful:
        def fit(self, data):
            return None

    with pytest.raises(SpibbError, match="pseudo-counts of None actions; expected 2"):
        TrainingData.from_transitions(DATA, uniform, Nameless())
    with pytest.raises(SpibbError, match="2 features and None actions; expected 2 and 2"):
        NetworkPolicy(NETWORK, RULE, uniform, Nameless())
    with pytest.raises(SpibbError, match="the pseudo-counts are None"):
        TrainingData.from_transitions(DATA, uniform, Forgetful())


# Rules and targets


def test_targets_that_lack_something():
    batch = {"reward": np.zeros(1), "terminated": np.zeros(1, bool), "gamma": 0.5}
    q = np.zeros((1, 2))
    with pytest.raises(DataError, match="n_here is None; expected numbers: ramdp-dqn needs"):
        targets(RaMDPDQN(kappa=1), **batch, q_online=q, q_target=q)
    targets(RaMDPDQN(kappa=0), **batch, q_online=q, q_target=q)
    with pytest.raises(DataError, match="counts is None"):
        improved_policy(PiBSPIBBDQN(), q, baseline=q)
    for rule in ("x", None, DQN):
        with pytest.raises(SettingsError, match="the rule is"):
            improved_policy(rule, q)


def test_configurations_of_rules():
    rule = PiBSPIBBDQN(n_wedge=math.inf)
    assert Rule.from_config(json.loads(json.dumps(rule.to_config()))) == rule
    with pytest.raises(SettingsError, match="dqn has no setting '1'"):
        Rule.from_config({"rule": "dqn", 1: 2, "a": 3, None: 4})
    with pytest.raises(SettingsError, match=r"n_wedge is '0\.5'"):
        Rule.from_config({"rule": rule.id, "n_wedge": "0.5"})


# Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_passes", "1"),
        ("n_passes", 1e308),
        ("n_passes", 10**30),
        ("gamma", "0.9"),
        ("hidden", (True, True)),
        ("hidden", np.array(1)),
        ("hidden", None),
        ("target_period", 10**30),
        ("batch_size", "4"),
        ("batch_size", True),
        ("rms_epsilon", 1e-300),
        pytest.param("learning_rate", 10**400, id="huge"),
    ],
)
def test_settings(name, value):
    with pytest.raises(SettingsError, match=f"{name} is"):
        TrainingSettings(**{name: value})


def test_numbers_of_numpy_become_plain_ones(tmp_path):
    given = TrainingSettings(
        hidden=np.array([4]), gamma=np.float64(0.9), n_passes=np.float64(2), batch_size=np.uint8(4),
        target_period=np.int32(10), learning_rate=np.float64(0.01),
    )  # fmt: skip
    assert given == SETTINGS
    assert json.dumps(given.to_config()) == json.dumps(SETTINGS.to_config())
    ours, theirs = train(settings=given, checkpoint=tmp_path / "state"), train()
    np.testing.assert_array_equal(ours.params, theirs.params)
    assert train(checkpoint=tmp_path / "state").engine == "cpu"
    # Minibatches of 4 over 300 transitions would be more than a uint8 counts.
    assert given.n_steps(300) == 150


def test_five_passes_are_five_passes():
    configs = [
        json.dumps(TrainingSettings(n_passes=n).to_config()) for n in (5, 5.0, np.float32(5))
    ]
    assert configs[0] == configs[1] == configs[2]
    assert TrainingSettings(n_passes=2.5).n_passes == 2.5


def test_more_samples_than_can_be_counted():
    with pytest.raises(SettingsError, match=r"first at member 0.* to 2\^53 samples"):
        train(settings=TrainingSettings(n_passes=2**53))


@pytest.mark.parametrize("temperature", ["0.5", 1e-45, 1e-31, None])
def test_temperatures(temperature):
    with pytest.raises(SettingsError, match="temperature is"):
        SoftmaxNetwork(NETWORK, temperature)


def test_the_coldest_policy_is_greedy():
    policy = SoftmaxNetwork(Network([[[1.0], [-1.0]]], [[0.0, 0.0]]), np.float64(1e-30))
    found = policy.action_probabilities([[1.0], [0.0]])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1, 0], [0.5, 0.5]])


@pytest.mark.parametrize("sizes", [3, None, ("a", "b"), (2.0, 2), (2, -2), (True, 2)])
def test_sizes(sizes):
    with pytest.raises(SettingsError, match="sizes is"):
        Network.from_flat(np.zeros(6), sizes)


@pytest.mark.parametrize("change", ["target_period", "annealing_samples", "n_steps"])
def test_what_the_kernel_cannot_count(change):
    settings = TrainingSettings()
    assert FusedEngine.misfit(TrainingBatch([TRAINING], [MEMBER], settings)) is None
    changes = {"n_passes": 2**40} if change == "n_steps" else {change: 2**31}
    settings = dataclasses.replace(settings, **changes)
    told = FusedEngine.misfit(TrainingBatch([TRAINING], [MEMBER], settings))
    assert change.replace("n_steps", "number of steps") in told


def test_auto_hands_what_does_not_fit_to_the_batched_engine_and_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    choice = training.choose_engine(TrainingBatch([TRAINING], [MEMBER], SETTINGS), "auto", None)
    assert choice.name == "torch on cuda"
    assert choice.note == "the number of hidden layers is 1, and it takes 3"


# Training


@pytest.mark.parametrize("member", ["a", 0.0, False, None, -1, 1])
def test_members_by_number(member):
    with pytest.raises(SettingsError, match="member"):
        train().network(member)


def test_divergence_in_the_last_step_is_seen():
    """The first step sees nothing wrong and makes the parameters infinite; there is no second."""
    settings = TrainingSettings(hidden=(4,), n_passes=0.2, batch_size=4, learning_rate=1e39)
    assert settings.n_steps(20) == 1
    population = train(settings=settings)
    assert not np.isfinite(population.params).all()
    assert population.diverged.tolist() == [True]
    assert population.n_steps.tolist() == [1]
    with pytest.raises(DataError, match="diverged at step 1"):
        population.network(0)


# Files


@pytest.mark.parametrize("path", [None, 3, b"x", "a\0b", "x" * 300, ""])
def test_paths_that_are_none(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for write in (NETWORK.write, POLICY.write):
        with pytest.raises(OutputError, match=r"a path is|cannot write|exists already"):
            write(path)
    for read in (Network.from_file, NetworkPolicy.read, SoftmaxNetwork.read):
        with pytest.raises(DataError, match=r"a path is|cannot read|holds no policy"):
            read(path)
    if path is not None:  # no checkpoint
        with pytest.raises(OutputError, match=r"a path is|cannot write"):
            train(checkpoint=path)
    assert not list(tmp_path.iterdir())


class TestWriting:
    def test_a_full_disk_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "file"
        NETWORK.write(path)
        before = path.read_bytes()

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"cannot write .*No space left on device"):
            NETWORK.write(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_stays_alone(self, tmp_path):
        (tmp_path / "folder").mkdir()
        with pytest.raises(OutputError, match="Is a directory"):
            NETWORK.write(tmp_path / "folder")
        assert list(tmp_path.iterdir()) == [tmp_path / "folder"]

    def test_a_link_stays_a_link(self, tmp_path):
        path, link = tmp_path / "deep" / "file", tmp_path / "link"
        path.parent.mkdir()
        link.symlink_to(path)
        NETWORK.write(link)
        assert link.is_symlink()
        assert path.stat().st_size > 0

    def test_a_pipe_stays_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        # With a reader there, writing does not wait for one.
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        NETWORK.write(tmp_path / "pipe")
        assert len(os.read(reader, 2**16)) > 0
        os.close(reader)
        assert (tmp_path / "pipe").is_fifo()


def contents(folder):
    return {part.name: part.read_bytes() for part in folder.iterdir()}


class TestFolders:
    """A policy is a folder that appears when it is complete."""

    def test_a_full_disk_leaves_the_old_policy(self, tmp_path, monkeypatch):
        path = tmp_path / "policy"
        POLICY.write(path)
        before = contents(path)

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"cannot write .*No space left on device"):
            WIDE.write(path, overwrite=True)
        assert contents(path) == before
        assert list(tmp_path.iterdir()) == [path]

    def test_a_policy_is_replaced_if_asked_to_and_nothing_else_is(self, tmp_path):
        path = tmp_path / "policy"
        POLICY.write(path)
        with pytest.raises(OutputError, match="exists already"):
            WIDE.write(path)
        WIDE.write(path, overwrite=True)
        assert NetworkPolicy.read(path).pseudo_counts.width == 3.0
        # A greedy policy leaves nothing of the old one behind.
        NetworkPolicy(NETWORK, DQN()).write(path, overwrite=True)
        assert set(contents(path)) == {"policy.json", "network.safetensors"}
        (path / "notes.txt").touch()
        with pytest.raises(OutputError, match=r"holds 'notes\.txt'"):
            POLICY.write(path, overwrite=True)
        NETWORK.write(tmp_path / "file")
        with pytest.raises(OutputError, match="is a file"):
            POLICY.write(tmp_path / "file", overwrite=True)

    def test_the_same_policy_makes_the_same_bytes(self, tmp_path):
        for name in ("a", "b"):
            POLICY.write(tmp_path / name)
        assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_files_that_cannot_be_read_are_not_called_missing(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(DataError, match=r"cannot read .*symbolic links"):
        Network.from_file(loop)
    with pytest.raises(DataError, match="No such file"):
        Network.from_file(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_forbidden_file(tmp_path):
    NETWORK.write(tmp_path / "file")
    (tmp_path / "file").chmod(0)
    with pytest.raises(DataError, match=r"cannot read .*Permission denied"):
        Network.from_file(tmp_path / "file")


def test_files_of_numbers_that_numpy_lacks(tmp_path):
    weight = torch.zeros(2, 2).to(torch.float8_e4m3fn)
    safetensors.torch.save_file({"weight_0": weight}, tmp_path / "file")
    with pytest.raises(DataError, match="not a safetensors file of numbers that NumPy has"):
        Network.from_file(tmp_path / "file")


DAMAGE = {
    "width": (POLICY, lambda h: h["pseudo_counts"].update(width="0.3"), "width is '0.3'"),
    "axis 1.0": (POLICY, lambda h: h["pseudo_counts"].update(axis=1.0), "axis is 1.0"),
    "axis true": (POLICY, lambda h: h["pseudo_counts"].update(axis=True), "axis is True"),
    "epsilon": (POLICY, lambda h: h["rule"].update(epsilon="0.5"), "epsilon is '0.5'"),
    "counts": (POLICY, lambda h: h.update(pseudo_counts="x"), "wrong one"),
}


@pytest.mark.parametrize(("policy", "change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_policies(policy, change, message, tmp_path):
    path = tmp_path / "policy"
    policy.write(path)
    damage(path, lambda arrays, about: change(about))
    with pytest.raises(DataError, match=message):
        NetworkPolicy.read(path)


def test_a_damaged_baseline(tmp_path):
    POLICY.write(tmp_path / "policy")
    NETWORK.write(tmp_path / "policy" / "baseline.safetensors", {"temperature": "0.5"})
    with pytest.raises(DataError, match=r"temperature is '0\.5'"):
        NetworkPolicy.read(tmp_path / "policy")


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5_000])
def test_json_that_cannot_be_read(text, tmp_path):
    data = safetensors.numpy.save(NETWORK.to_arrays(), metadata={"spibb": text})
    (tmp_path / "network").write_bytes(data)
    with pytest.raises(SettingsError, match=r"temperature is None.*or given as temperature=0.1"):
        SoftmaxNetwork.read(tmp_path / "network")
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(DataError, match="holds no policy"):
        NetworkPolicy.read(tmp_path)


# Checkpoints

CHECKPOINTS = {
    "float64": (lambda a, h: a.update(params=a["params"].astype(float)), "params is not there"),
    "curves": (lambda a, h: a.update(curve_loss=a["curve_loss"].astype(int)), "curve_loss is not"),
    "far": (lambda a, h: h.update(t=10**30), r"is damaged: its step is 10+, of \d+"),
    "negative": (lambda a, h: h.update(t=-5), "its step is -5"),
    "beyond": (lambda a, h: h.update(t=h["t"] + 1), "its step is"),
    "true": (lambda a, h: h.update(t=True), "its step is True"),
    "text": (lambda a, h: h.update(about="x", identity="x"), "belongs to another training"),
}


@pytest.mark.parametrize(("change", "message"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_damaged_checkpoints(change, message, tmp_path):
    path = tmp_path / "state"
    train(checkpoint=path)
    arrays, header = read_arrays(path)
    change(arrays, header)
    write_arrays(path, arrays, header)
    with pytest.raises(SpibbError, match=message):
        train(checkpoint=path)


def test_a_checkpoint_asks_for_safetensors_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)

    def never(*_):
        raise AssertionError("it has begun")

    monkeypatch.setattr(CpuEngine, "advance", never)
    with pytest.raises(MissingDependencyError, match=r'pip install "spibb\[deep\]"'):
        train(checkpoint=tmp_path / "state")


def test_points_of_curves_counted_by_numpy(tmp_path):
    found = train(record_every=np.int64(3), checkpoint=tmp_path / "state")
    assert found.curves.steps.tolist() == [0, 3, 6, 9]
