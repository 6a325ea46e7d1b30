"""Whatever is wrong with what the user gives, one readable message of spibb says it."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from small_problems import damage

from spibb import SpibbError, TabularPolicy
from spibb.compiled.arrays import checked_device
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
)
from spibb.deep.network import read_arrays, write_arrays
from spibb.deep.rules import Rule
from spibb.envs import Helicopter, collect_transitions
from spibb.envs.cart_pole import CartPole

RULE = ExactSoftSPIBBDQN(epsilon=0.5)
SETTINGS = TrainingSettings(hidden=(4,), n_passes=2, batch_size=4)
NETWORK = Network([np.ones((2, 2))], [np.zeros(2)])
RNG = np.random.default_rng(0)


def transitions(n=20, d=2, n_actions=2, **columns):
    rng = np.random.default_rng(0)
    given = {
        "state": rng.random((n, d)),
        "action": rng.integers(0, n_actions, n),
        "reward": rng.random(n),
        "next_state": rng.random((n, d)),
        "terminated": rng.random(n) < 0.2,
    }
    return Transitions.from_arrays(**given | columns, n_actions=n_actions)


def uniform(states):
    return np.full((len(states), 2), 0.5)


DATA = transitions()
COUNTS = KernelCounts().fit(DATA)
TRAINING = TrainingData.from_transitions(DATA, uniform, COUNTS)
POLICY = NetworkPolicy(NETWORK, RULE, SoftmaxNetwork(NETWORK, 1.0), COUNTS)


def prepare(baseline=uniform, counts=COUNTS, data=DATA):
    return TrainingData.from_transitions(data, baseline, counts)


def train(**change):
    call = {"data": TRAINING, "members": [Member(0, RULE, 0)], "settings": SETTINGS}
    return train_population(**call | change)


def fused(**change):
    return train(engine="fused", settings=TrainingSettings(n_passes=2), **change)


def check(call, message):
    with pytest.raises(SpibbError, match=message) as problem:
        call()
    # The cause, an error from inside a library, is not shown.
    assert problem.value.__cause__ is None or problem.value.__suppress_context__


OBSERVATIONS = {
    "NaN": ([math.nan, 0], r"one of the observations is \[nan  0.\]"),
    "infinite": ([math.inf, 0], "expected finite numbers"),
    "beyond float32": ([1e40, 0], "in the range of float32"),
    "text": ("a", "not numbers"),
    "nothing": (None, r"observations have shape \(\); expected \(..., 2\)"),
    "too long": ([1, 2, 3], r"shape \(3,\); expected \(..., 2\)"),
    "complex": (np.array([1j, 0]), "not numbers"),
    "ragged": ([[1, 2], [3]], "not numbers"),
}


@pytest.mark.parametrize(("observation", "message"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations(observation, message):
    check(lambda: POLICY.act(observation), message)


COLUMNS = {
    "no rows": ({"n": 0}, r"state has shape \(0, 2\); expected shape \(N, d\)"),
    "complex states": ({"state": np.zeros((20, 2), complex)}, "not numbers"),
    "dates": ({"state": np.zeros((20, 2), "M8[s]")}, "not numbers"),
}


@pytest.mark.parametrize(("columns", "message"), COLUMNS.values(), ids=COLUMNS)
def test_transitions(columns, message):
    check(lambda: transitions(**columns), message)


def test_numbers_of_actions():
    check(lambda: Transitions.from_arrays([], [], [], [], []), r"state has shape \(0,\)")
    row = {"state": [[0.0]], "reward": [0], "next_state": [[0.0]], "terminated": [0]}
    check(lambda: Transitions.from_arrays(**row, action=[10**12]), "number the actions from 0")
    for n_actions in ("x", 2.5):
        check(
            lambda n=n_actions: Transitions.from_arrays(**row, action=[0], n_actions=n),
            "n_actions is",
        )


NETWORKS = {
    "nothing": (lambda: Network(None, None), "are not layers; expected two lists"),
    "beyond float32": (lambda: Network([np.full((2, 2), 1e39)], [[0, 0]]), "weight_0 is inf"),
    "text": (lambda: Network.from_flat("abc", (2, 2)), "parameters has values that are not"),
    "a folder": (lambda: Network.from_file("."), "cannot read"),
    "no network": (lambda: SoftmaxNetwork(None, 1.0), "the network is NoneType"),
    "metadata": (lambda: NETWORK.write("x", {"a": object()}), "metadata of plain JSON values"),
}


@pytest.mark.parametrize(("call", "message"), NETWORKS.values(), ids=NETWORKS)
def test_networks(call, message):
    check(call, message)


PREPARED = {
    "rows of 1.4": ({"baseline": lambda x: np.full((len(x), 2), 0.7)}, r"are \[0.69\d*, 0.69"),
    "text": ({"baseline": lambda x: [["a", "b"]] * len(x)}, "probabilities has values"),
    "nothing": ({"baseline": lambda x: None}, r"the baseline's probabilities have shape \(\)"),
    "a table": ({"baseline": TabularPolicy([[0.5, 0.5]])}, "the policy has no state 0"),
    "a bare network": ({"baseline": NETWORK}, r"wrap a network as SoftmaxNetwork"),
    "counts of other states": ({"counts": KernelCounts().fit(transitions(d=3))}, "expected .*, 3"),
    "counts of more actions": (
        {"counts": KernelCounts().fit(transitions(n_actions=3))},
        "pseudo-counts of 3 actions; expected 2",
    ),
    "counts of fewer actions": (
        {"counts": KernelCounts().fit(transitions(n_actions=1))},
        "pseudo-counts of 1 actions; expected 2",
    ),
    "no counts": ({"counts": None}, "the pseudo-counts are None"),
    "a class": ({"counts": KernelCounts}, "the pseudo-counts are <class"),
    "no transitions": ({"data": None}, "the transitions are NoneType"),
}


@pytest.mark.parametrize(("given", "message"), PREPARED.values(), ids=PREPARED)
def test_what_training_data_are_made_of(given, message):
    check(lambda: prepare(**given), message)


@pytest.mark.parametrize("length", [0, -1, math.nan, math.inf, "a", None, 1e-300])
def test_lengths(length):
    check(lambda: KernelCounts(length), "width is")
    check(lambda: choose_width(DATA, [length]), "width is")


def test_counting():
    check(lambda: KernelCounts().fit(None), "the transitions are NoneType")
    check(lambda: choose_width(DATA, n_queries=0), "n_queries is 0")
    # So far out nothing is known, and no number overflows.
    assert KernelCounts(0.2).fit(DATA).counts([[3e38, 0.0]]).tolist() == [[0, 0]]
    np.testing.assert_array_equal(KernelCounts(1e15).fit(DATA).counts([[0.0, 0.0]]).sum(), 20)


@pytest.mark.parametrize("value", [-1, math.nan, "x", None])
def test_hyper_parameters(value):
    check(lambda: ExactSoftSPIBBDQN(epsilon=value), "epsilon is")
    check(lambda: RaMDPDQN(kappa=value), "kappa is")
    check(lambda: PiBSPIBBDQN(n_wedge=value), "n_wedge is")


def test_rules_by_name():
    check(lambda: Rule.from_config({"rule": "exact-soft"}), "use 'exact-soft-spibb-dqn'")
    check(lambda: Rule.from_config(None), "a configuration is None")


CALLS = {
    "device 0": ({"device": 0}, "device is 0"),
    "transitions": ({"data": DATA}, "a data set is Transitions.*from_transitions"),
    "a list of them": ({"data": [DATA]}, r"first at data set 0"),
    "a rule": ({"members": [RULE]}, r"a member is .*first at member 0"),
    "a class": ({"members": [Member(0, DQN, 0)]}, "with a rule of spibb.deep.rules"),
    "a dict": ({"settings": {"n_passes": 3}}, "settings are {'n_passes': 3}"),
    "progress": ({"progress": 3}, "progress is 3"),
    "record_every": ({"record_every": "a"}, "record_every is 'a'"),
    "no step": ({"settings": TrainingSettings(n_passes=1)}, "1 passes over 20 .*a minibatch of 32"),
    "checkpoint": ({"checkpoint": "/proc/none/state"}, "cannot write /proc/none/state"),
}


@pytest.mark.parametrize(("change", "message"), CALLS.values(), ids=CALLS)
def test_training(change, message):
    check(lambda: train(engine="cpu" if "device" not in change else "auto", **change), message)


def test_devices(monkeypatch):
    check(lambda: checked_device("tpu"), "device is 'tpu'; expected 'cpu', 'cuda' or 'cuda:0'")
    check(lambda: checked_device(["cuda"]), "device is")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert checked_device("cuda") == torch.device("cuda", 0)
    check(lambda: checked_device("cuda:3"), r"torch finds only 1 \(device 'cuda:3'\)")
    check(lambda: train(device="cuda:x"), "device is 'cuda:x'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:0"):
        check(lambda d=device: fused(device=d), "torch finds none")
    check(fused, "torch finds none")
    # What does not fit is known without a GPU.
    check(lambda: train(engine="fused"), "the number of hidden layers is 1, and it takes 3")


@pytest.mark.parametrize(("data", "seed"), [(0.5, 0), ("a", 0), (0, "x"), (0, None), (0, 1.5)])
def test_members(data, seed):
    check(lambda: Member(data, RULE, seed), "of a member is .*expected a whole number")


def test_members_of_numpy_numbers_and_a_single_one(tmp_path):
    ours = train(members=Member(np.int64(0), RULE, np.int64(3)), checkpoint=tmp_path / "state")
    theirs = train(members=[Member(0, RULE, 3)])
    np.testing.assert_array_equal(ours.params, theirs.params)
    check(lambda: ours.network(1), "member 1 of 1")


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden", value) for value in ("ab", 8, (math.nan,), (2.7,), ("x",))]
    + [(name, "x") for name in ("gamma", "n_passes", "batch_size", "learning_rate", "rms_decay")]
    + [(name, None) for name in ("target_period", "rms_epsilon", "q_limit")],
)
def test_settings(name, value):
    check(lambda: TrainingSettings(**{name: value}), f"{name} is")


def test_one_transition_and_one_action():
    for n, n_actions in ((1, 2), (20, 1), (1, 1)):
        data = transitions(n=n, n_actions=n_actions)
        baseline = SoftmaxNetwork(Network([np.ones((n_actions, 2))], [np.zeros(n_actions)]), 1.0)
        counts = KernelCounts().fit(data)
        ready = prepare(baseline, counts, data)
        settings = TrainingSettings(hidden=(4,), n_passes=64, batch_size=4)
        trained = train(data=ready, settings=settings)
        policy = NetworkPolicy(trained.network(0), RULE, baseline, counts)
        np.testing.assert_allclose(policy.action_probabilities(data.state).sum(-1), 1, atol=1e-6)


def test_layouts_do_not_matter():
    wide = np.asfortranarray(RNG.random((6, 4)))[:, ::2]
    tight = np.ascontiguousarray(wide, dtype=np.float32)
    np.testing.assert_array_equal(
        POLICY.action_probabilities(wide), POLICY.action_probabilities(tight)
    )
    np.testing.assert_array_equal(COUNTS.counts(wide), COUNTS.counts(tight))
    locked = tight.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(
        POLICY.action_probabilities(locked), POLICY.action_probabilities(tight)
    )


POLICIES = {
    "a rule's name": (lambda: NetworkPolicy(NETWORK, "dqn"), "the rule is 'dqn'"),
    "parameters": (lambda: NetworkPolicy(np.ones(5), DQN()), "the network is array"),
    "counts not fitted": (
        lambda: NetworkPolicy(NETWORK, RULE, uniform, KernelCounts()),
        "acts without fitted pseudo-counts",
    ),
    "no baseline": (lambda: NetworkPolicy(NETWORK, RULE, 3, COUNTS).act([0, 0]), "is int"),
}


@pytest.mark.parametrize(("call", "message"), POLICIES.values(), ids=POLICIES)
def test_policies(call, message):
    check(call, message)


DAMAGE = {
    "no rule": (lambda a, h: h.pop("rule"), "lacks an entry of a policy"),
    "no scale": (lambda a, h: h.pop("scale"), "lacks an entry of a policy"),
    "a scale of 0": (lambda a, h: h.update(scale=[1.0, 0.0]), "scale is"),
    "no counts": (lambda a, h: h.pop("pseudo_counts"), "lacks an entry of a policy"),
    "unknown counts": (lambda a, h: h["pseudo_counts"].update(kind="x"), "'x'"),
    "more than counts": (lambda a, h: h["pseudo_counts"].update(foo=1), "foo"),
    "no points": (lambda a, h: a.pop("points"), "points"),
    "NaN": (lambda a, h: a["points"].fill(math.nan), "one of the states is"),
    "beyond the points": (
        lambda a, h: a.update({"bounds": np.array([0, 5, 10**6])}),
        "with bounds",
    ),
    "an axis too many": (lambda a, h: h["pseudo_counts"].update(axis=7), "axis 7"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_policies(change, message, tmp_path):
    path = tmp_path / "policy"
    POLICY.write(path)
    damage(path, change)
    check(lambda: NetworkPolicy.read(path), message)


MISSING = {
    "policy.json": "holds no policy",
    "network.safetensors": "No such file",
    "baseline.safetensors": "lacks an entry of a policy.*No such file",
    "counts.safetensors": "lacks an entry of a policy.*No such file",
}


@pytest.mark.parametrize(("name", "message"), MISSING.items())
def test_policies_that_lack_a_file(name, message, tmp_path):
    path = tmp_path / "policy"
    POLICY.write(path)
    (path / name).unlink()
    check(lambda: NetworkPolicy.read(path), message)


def test_a_file_cut_short(tmp_path):
    POLICY.write(tmp_path / "policy")
    path = tmp_path / "policy" / "network.safetensors"
    path.write_bytes(path.read_bytes()[:-20])
    check(lambda: NetworkPolicy.read(path.parent), "may be of another kind or incomplete")
    check(lambda: train(engine="cpu", checkpoint=path), "not a safetensors file")


CHECKPOINTS = {
    "no settings": (lambda a, h: h["about"].pop("settings"), "training .its settings differ"),
    "no parameters": (lambda a, h: a.pop("params"), "is damaged: params is not there"),
    "fewer parameters": (lambda a, h: a.update(v=a["v"][:, 1:]), "is damaged: v is not there"),
    "no step": (lambda a, h: h.update(t="x"), "is damaged: its step is 'x'"),
}


@pytest.mark.parametrize(("change", "message"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_damaged_checkpoints(change, message, tmp_path):
    path = tmp_path / "state"
    train(engine="cpu", checkpoint=path)
    arrays, header = read_arrays(path)
    change(arrays, header)
    write_arrays(path, arrays, header)
    check(lambda: train(engine="cpu", checkpoint=path), message)


ENVIRONMENTS = {
    "steps": (lambda: Helicopter(max_steps=2.5), "max_steps is 2.5"),
    "transitions": (lambda: Helicopter().collect(uniform, 10.5, RNG), "n_transitions is 10.5"),
    "nothing": (
        lambda: Helicopter().run_episodes(lambda x: None, [1], n_episodes=3),
        "a policy returned",
    ),
    "share": (lambda: CartPole(extra_stochasticity="a"), "extra_stochasticity is 'a'"),
    "size": (lambda: collect_transitions(CartPole(), uniform, 2.5, RNG), "n_transitions is 2.5"),
}


@pytest.mark.parametrize(("call", "message"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_environments(call, message):
    check(call, message)


def test_an_action_that_cart_pole_does_not_know():
    env = gymnasium.make("spibb/CartPole-v0", extra_stochasticity=1.0)
    env.reset(seed=0)
    check(lambda: env.step(5), "action is 5")


def test_seeds_are_not_generators():
    for call in (
        lambda: POLICY.act([0, 0], 3),
        lambda: Helicopter().collect(uniform, 5, 3),
        lambda: collect_transitions(CartPole(), uniform, 5, 3),
    ):
        check(call, r"rng is 3; expected a numpy.random.Generator.*default_rng\(0\)")


def test_objects_with_probabilities_are_policies():
    helicopter = Helicopter()
    baseline = helicopter.baseline()
    ours, theirs = (
        helicopter.collect(policy, 50, np.random.default_rng(0))
        for policy in (baseline, baseline.action_probabilities)
    )
    np.testing.assert_array_equal(ours.state, theirs.state)
    ours, theirs = (
        helicopter.run_episodes(policy, [1], n_episodes=5).total
        for policy in (baseline, baseline.action_probabilities)
    )
    np.testing.assert_array_equal(ours, theirs)
    assert len(collect_transitions(helicopter_env(), baseline, 5, RNG)) == 5


def helicopter_env():
    return gymnasium.make("spibb/Helicopter-v0")
