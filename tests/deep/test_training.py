"""Training a population: right, repeatable, independent of company, resumable, watched."""

import dataclasses
import sys
import time
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_problems import DEVICES, LOOSE, RULES, TIGHT, random_data

from spibb.compiled.random_numbers import minibatch
from spibb.deep import training
from spibb.deep.network import first_parameters, layer_places
from spibb.deep.population import Member, TrainingSettings
from spibb.deep.rules import DoubleDQN, ExactSoftSPIBBDQN, PiBSPIBBDQN, RaMDPDQN
from spibb.deep.targets import targets
from spibb.deep.train_cpu import CpuEngine
from spibb.deep.training import train_population
from spibb.deep.training_data import COLUMNS, TrainingData
from spibb.deep.transitions import Transitions
from spibb.errors import DataError, MissingDependencyError, PolicyError, SettingsError

SMALL = TrainingSettings(hidden=(16, 8), n_passes=20, batch_size=8, learning_rate=0.002)


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of torch cost more than they save on tensors of this size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(a, b):
    np.testing.assert_array_equal(a.params, b.params)
    np.testing.assert_array_equal(a.state.target, b.state.target)
    np.testing.assert_array_equal(a.state.v, b.state.v)
    np.testing.assert_array_equal(a.curves.loss, b.curves.loss)
    np.testing.assert_array_equal(a.curves.max_q, b.curves.max_q)


def plain_training(data, rule, seed, settings, n_steps):
    """The same training as anyone would write it: autograd and torch.optim, in float64."""
    sizes = (data.n_features, *settings.hidden, data.n_actions)
    flat = torch.tensor(first_parameters([seed], sizes)[0], dtype=torch.float64)

    def network(parameters, x):
        for k, (first, middle, last, fan_in, fan_out) in enumerate(layer_places(sizes)):
            weight = parameters[first:middle].reshape(fan_in, fan_out)
            x = x @ weight + parameters[middle:last]
            x = x.relu() if k + 2 < len(sizes) else x
        return x

    columns = {name: torch.tensor(getattr(data, name)) for name in COLUMNS}
    columns = {
        name: part.double() if part.is_floating_point() else part for name, part in columns.items()
    }
    online = flat.clone().requires_grad_()
    optimiser = torch.optim.RMSprop([online], alpha=settings.rms_decay, eps=settings.rms_epsilon)
    for t in range(n_steps):
        if t % settings.target_period == 0:
            frozen = online.detach().clone()
        rows = minibatch(seed, t, batch_size=settings.batch_size, n=len(data))
        part = {name: column[rows] for name, column in columns.items()}
        with torch.no_grad():
            y = targets(
                rule,
                reward=part["reward"],
                terminated=part["terminated"],
                gamma=settings.gamma,
                q_online=network(online, part["next_state"]),
                q_target=network(frozen, part["next_state"]),
                baseline_next=part["baseline_next"],
                n_next=part["n_next"],
                n_here=part["n_here"],
            )
        q = network(online, part["state"]).gather(1, part["action"][:, None])[:, 0]
        loss = torch.nn.functional.mse_loss(q, y)
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = settings.rate(t, len(data))
        optimiser.step()
    return online.detach().numpy()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_equal_to_autograd_and_torch_optim(rule):
    data = random_data()
    # Short periods, so that the learning rate is annealed on the way.
    settings = TrainingSettings(
        hidden=(16, 8), n_passes=1, batch_size=8, learning_rate=0.002, annealing_samples=100
    )
    n_steps = settings.n_steps(len(data))
    assert n_steps == 37
    assert settings.rate(36, 200) == 0.001
    population = train_population(data, [Member(0, rule, 3)], settings, engine="cpu")
    expected = plain_training(data, rule, 3, settings, n_steps)
    np.testing.assert_allclose(population.params[0], expected, atol=3e-6)
    assert np.abs(population.params[0] - first_parameters([3], population.sizes)[0]).max() > 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_cpu_and_torch_engines_agree_over_a_thousand_steps(device):
    data = [random_data(320, seed=1), random_data(400, seed=2)]
    settings = TrainingSettings(hidden=(16, 8), n_passes=100, learning_rate=0.001)
    members = [Member(k % 2, rule, 10 + k) for k, rule in enumerate(RULES)]
    ours = train_population(data, members, settings, engine="cpu")
    theirs = train_population(data, members, settings, engine="torch", device=device)
    assert ours.n_steps.tolist() == [1000, 1250] * 3 + [1000]
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-4)
    np.testing.assert_allclose(ours.curves.loss, theirs.curves.loss, rtol=1e-3)
    assert theirs.engine == f"torch on {device}"


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_the_limits_in_training(engine):
    """Loose rules are trained as Double-DQN is, bit for bit; tight ones as each other."""
    members = [Member(0, rule, 5) for rule in (DoubleDQN(), *LOOSE, *TIGHT)]
    found = train_population(random_data(), members, SMALL, engine=engine, device="cpu").params
    for k in range(1, 1 + len(LOOSE)):
        np.testing.assert_array_equal(found[k], found[0])
    for k in range(2 + len(LOOSE), len(members)):
        np.testing.assert_array_equal(found[k], found[1 + len(LOOSE)])
    assert np.abs(found[-1] - found[0]).max() > 0.01


def test_a_member_does_not_depend_on_its_population(monkeypatch):
    data = [random_data(300, seed=1), random_data(200, seed=2)]
    members = [Member(k % 2, RULES[k % len(RULES)], k) for k in range(40)]
    whole = train_population(data, members, SMALL, engine="cpu", record_every=100)
    for k in (0, 5, 13, 39):
        alone = train_population(data, members[k : k + 1], SMALL, engine="cpu", record_every=100)
        np.testing.assert_array_equal(alone.params[0], whole.params[k])
        n_points = alone.curves.loss.shape[1]
        np.testing.assert_array_equal(alone.curves.loss[0], whole.curves.loss[k, :n_points])
        assert np.isnan(whole.curves.loss[k, n_points:]).all()
    monkeypatch.setenv("SPIBB_THREADS", "1")
    same(train_population(data, members, SMALL, engine="cpu", record_every=100), whole)


@pytest.mark.parametrize("device", DEVICES)
def test_a_member_among_others_on_the_batched_path(device):
    data = random_data()
    members = [Member(0, RULES[k % len(RULES)], k) for k in range(14)]
    settings = TrainingSettings(hidden=(16, 8), n_passes=107, learning_rate=0.001)
    assert settings.n_steps(len(data)) > 1_000
    whole = train_population(data, members, settings, engine="torch", device=device)
    alone = train_population(data, members[5:6], settings, engine="torch", device=device)
    np.testing.assert_allclose(alone.params[0], whole.params[5], atol=1e-4)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_seeded_run_repeats_exactly_and_another_seed_differs(rule):
    data = random_data()
    runs = [
        train_population(data, [Member(0, rule, seed)], SMALL, engine="cpu") for seed in (1, 1, 2)
    ]
    same(runs[0], runs[1])
    assert (runs[0].params != runs[2].params).any()


def test_any_shape():
    data = random_data(50, n_features=1, n_actions=1)
    for hidden, batch_size in (((), 1), ((3,), 5), ((40, 9, 2, 7), 33)):
        settings = TrainingSettings(hidden=hidden, batch_size=batch_size, n_passes=10)
        ours = train_population(data, [Member(0, DoubleDQN(), 0)], settings, engine="cpu")
        theirs = train_population(
            data, [Member(0, DoubleDQN(), 0)], settings, engine="torch", device="cpu"
        )
        assert ours.sizes == (1, *hidden, 1)
        np.testing.assert_allclose(ours.params, theirs.params, atol=1e-3)


class StoppedError(Exception):
    """Raised where a training is to be interrupted."""


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_an_interrupted_training_resumes_exactly(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_REPORT_SECONDS", 0.0)
    data = [random_data(300, seed=1), random_data(200, seed=2)]
    members = [Member(k % 2, rule, k) for k, rule in enumerate(RULES)]
    settings = {"engine": engine, "device": "cpu", "record_every": 7}
    short = TrainingSettings(hidden=(8,), n_passes=3, batch_size=8)
    whole = train_population(data, members, short, **settings)
    path = tmp_path / "deeper" / "state.safetensors"
    stops = [13, 20, 21, 70]

    def interrupt(progress):
        if stops and progress.step >= stops[0]:
            stops.pop(0)
            raise StoppedError

    for _ in range(len(stops)):
        with pytest.raises(StoppedError):
            train_population(data, members, short, **settings, checkpoint=path, progress=interrupt)
    resumed = train_population(data, members, short, **settings, checkpoint=path)
    same(resumed, whole)
    assert [part.name for part in path.parent.iterdir()] == ["state.safetensors"]
    # A finished training is read, not repeated.
    same(train_population(data, members, short, **settings, checkpoint=path), whole)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    data, path = random_data(), tmp_path / "state"
    short = TrainingSettings(hidden=(8,), n_passes=1)
    member = [Member(0, DoubleDQN(), 0)]
    train_population(data, member, short, engine="cpu", checkpoint=path)
    with pytest.raises(SettingsError, match="its members differ"):
        train_population(data, [Member(0, DoubleDQN(), 1)], short, engine="cpu", checkpoint=path)
    with pytest.raises(SettingsError, match="its data differ"):
        train_population(random_data(seed=9), member, short, engine="cpu", checkpoint=path)
    with pytest.raises(SettingsError, match="its engine differ"):
        train_population(data, member, short, engine="torch", device="cpu", checkpoint=path)
    path.write_text("{}")
    with pytest.raises(DataError, match="not a safetensors file"):
        train_population(data, member, short, engine="cpu", checkpoint=path)


def test_progress_tells_the_truth(monkeypatch):
    monkeypatch.setattr(training, "_REPORT_SECONDS", 0.0)
    seen, began = [], time.monotonic()
    train_population(
        random_data(), [Member(0, DoubleDQN(), 0)] * 2, SMALL, engine="cpu", progress=seen.append
    )
    seconds = time.monotonic() - began
    assert [part.step for part in seen] == sorted({part.step for part in seen})
    assert seen[-1].step == seen[-1].n_steps == 750
    assert seen[-1].seconds_left == 0
    assert seen[-1].passes == 20
    # 1,500 steps in the time that the training took, or a little less.
    assert seen[-1].steps_per_second >= 1500 / seconds


class WholeEngine(CpuEngine):
    """The engine of the CPU, as if fewer blocks were much faster."""

    is_whole = True
    blocks: ClassVar[list[int]] = []

    def advance(self, state, n_steps):
        self.blocks.append(n_steps)
        return super().advance(state, n_steps)


def test_a_training_that_nobody_watches_is_one_block(monkeypatch):
    monkeypatch.setattr(training, "CpuEngine", WholeEngine)
    settings = dataclasses.replace(SMALL, n_passes=20.03)  # 751 steps, no whole target periods
    call = random_data(), Member(0, DoubleDQN(), 0), settings
    found = train_population(*call, engine="cpu", record_every=0)
    assert WholeEngine.blocks == [751]
    assert found.curves.steps.size == 0
    train_population(*call, engine="cpu", record_every=0, progress=print)
    assert WholeEngine.blocks[1] == 60


def test_curves():
    data = random_data()
    population = train_population(
        data, [Member(0, DoubleDQN(), 4)], SMALL, engine="cpu", record_every=50
    )
    curves = population.curves
    assert curves.steps.tolist() == list(range(0, 750, 50))
    rows = minibatch(4, 0, batch_size=8, n=len(data))
    first = training.Network.from_flat(first_parameters([4], population.sizes)[0], population.sizes)
    assert curves.max_q[0, 0] == pytest.approx(first.q(data.state[rows]).max(1).mean(), abs=1e-5)
    q_next = first.q(data.next_state[rows])
    y = targets(
        DoubleDQN(), reward=data.reward[rows], terminated=data.terminated[rows], gamma=0.9,
        q_online=q_next, q_target=q_next,
    )  # fmt: skip
    q = first.q(data.state[rows])[np.arange(8), data.action[rows]]
    assert curves.loss[0, 0] == pytest.approx(((q - y) ** 2).mean(), abs=1e-5)
    assert curves.loss[0, -5:].mean() < curves.loss[0, :5].mean()


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_divergence_is_seen_early_and_stops_one_member_only(engine):
    data = [random_data(), random_data()]
    object.__setattr__(data[1], "reward", data[1].reward * np.float32(1e8))
    members = [Member(0, DoubleDQN(), 0), Member(1, DoubleDQN(), 0)]
    settings = TrainingSettings(hidden=(8,), n_passes=40, learning_rate=0.05, q_limit=3.0)
    population = train_population(data, members, settings, engine=engine, device="cpu")
    assert population.diverged[1]
    assert 0 < population.n_steps[1] < settings.n_steps(300)
    with pytest.raises(DataError, match=r"member 1 \(double-dqn\) diverged at step"):
        population.network(1)
    after = population.curves.steps > population.n_steps[1]
    assert np.isnan(population.curves.loss[1, after]).all()
    if not population.diverged[0]:
        assert population.network(0).sizes == (3, 8, 4)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_an_overflow_is_a_divergence(engine):
    data = random_data()
    object.__setattr__(data, "reward", np.full_like(data.reward, 3e38))
    population = train_population(
        data, [Member(0, DoubleDQN(), 0)], SMALL, engine=engine, device="cpu"
    )
    assert population.diverged.all()
    assert population.n_steps[0] < 5


def test_the_networks_are_those_of_the_parameters():
    population = train_population(random_data(), [Member(0, DoubleDQN(), 0)], SMALL, engine="cpu")
    assert len(population) == 1
    np.testing.assert_array_equal(population.network(0).to_flat(), population.params[0])


def test_numbers_of_the_paper():
    settings = TrainingSettings()
    assert settings.n_steps(10_000) == 625_000
    assert [settings.rate(t, 10_000) for t in (0, 624, 625, 1250)] == [0.01, 0.01, 0.005, 0.01 / 3]
    assert settings.rate(1_000, 32_000) == 0.005
    assert settings.rate(999, 32_000) == 0.01


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("engine", ["auto", "torch", "fused"])
def test_a_gpu_asked_for_and_absent(engine):
    with pytest.raises(SettingsError, match="a GPU is asked for, and torch finds none"):
        train_population(
            random_data(), Member(0, DoubleDQN(), 0), TrainingSettings(), engine=engine,
            device="cuda",
        )  # fmt: skip


def test_auto_without_a_gpu_is_the_compiled_engine(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    population = train_population(random_data(), [Member(0, DoubleDQN(), 0)], SMALL)
    assert population.engine == "cpu"


def test_torch_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    call = random_data(), [Member(0, DoubleDQN(), 0)], SMALL
    with pytest.raises(MissingDependencyError, match=r'pip install "spibb\[deep\]"'):
        train_population(*call, engine="torch")
    assert train_population(*call).engine == "cpu"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "gpu"}, "engine is 'gpu'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"engine": "cpu", "device": "cuda"}, "engine 'cpu' does not run on 'cuda'"),
        ({"engine": "fused", "device": "cpu"}, "engine 'fused' does not run on 'cpu'"),
        ({"record_every": -1}, "record_every is -1"),
        ({"restarts": 1.5}, "restarts is 1.5"),
        ({"members": []}, "there are no members"),
        ({"members": [Member(1, DoubleDQN(), 0)]}, r"data set 1 of 1 \(first at member 0\)"),
        ({"members": [Member(0, "dqn", 0)]}, "a member is"),
        ({"data": []}, "there are no data sets"),
        ({"data": [random_data(), random_data(n_actions=5)]}, "first at data set 1"),
    ],
)
def test_bad_calls(change, message):
    call = {"data": random_data(), "members": [Member(0, DoubleDQN(), 0)], "settings": SMALL}
    with pytest.raises((SettingsError, DataError), match=message):
        train_population(**call | change)


def test_a_penalty_needs_counts():
    data = random_data()
    data.n_here[7] = 0
    with pytest.raises(DataError, match="data set 0, row 7"):
        train_population(data, [Member(0, RaMDPDQN(kappa=0.1), 0)], SMALL, engine="cpu")
    train_population(
        data, [Member(0, RaMDPDQN(kappa=0), 0)], TrainingSettings(n_passes=1), engine="cpu"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", (0,)),
        ("gamma", 1.5),
        ("n_passes", -1),
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("target_period", 0),
        ("learning_rate", 0.0),
        ("rms_decay", 1.0),
        ("rms_epsilon", 0.0),
        ("annealing_samples", 0),
        ("q_limit", float("nan")),
    ],
)
def test_bad_settings(name, value):
    with pytest.raises((SettingsError, ValueError), match=name):
        TrainingSettings(**{name: value})


def row(**change):
    columns = {
        "state": [[0.0]],
        "action": [0],
        "reward": [0.0],
        "next_state": [[0.0]],
        "terminated": [False],
        "n_here": [1.0],
        "baseline_next": [[0.5, 0.5]],
        "n_next": [[1.0, 1.0]],
    }
    return TrainingData(**columns | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": [[np.nan]]}, r"state is nan \(first at row 0, coordinate 0\)"),
        (
            {"action": [2]},
            r"action is 2 \(first at row 0\); expected below n_actions = 2",
        ),
        ({"reward": [np.inf]}, "reward is inf"),
        ({"n_next": [[-1.0, 1.0]]}, "n_next is -1.0"),
        ({"n_here": [np.nan]}, "n_here is nan"),
        ({"n_here": [1.0, 1.0]}, "n_here has shape"),
        ({"next_state": [[0.0, 1.0]]}, "next_state has shape"),
        ({"state": [0.0]}, "state has shape"),
        ({"action": []}, r"action has shape \(0,\)"),
        ({"state": np.empty((0, 1))}, r"state has shape \(0, 1\)"),
        ({"baseline_next": [[0.7, 0.7]]}, "the baseline's probabilities are"),
    ],
)
def test_bad_training_data(change, message):
    with pytest.raises((DataError, PolicyError), match=message):
        row(**change)


class Ones:
    """Pseudo-counts that are already fitted."""

    n_actions = 2

    def counts(self, states):
        return np.ones((len(states), 2), np.float32)


def test_training_data_from_transitions():
    transitions = Transitions.from_arrays([[0.0], [1.0]], [0, 1], [1, 2], [[1.0], [2.0]], [0, 1])
    data = TrainingData.from_transitions(transitions, lambda x: np.full((len(x), 2), 0.5), Ones())
    assert (len(data), data.n_features, data.n_actions) == (2, 1, 2)
    assert data.baseline_next.dtype == np.float32
    np.testing.assert_array_equal(data.n_here, 1)
    with pytest.raises(PolicyError, match="shape"):
        TrainingData.from_transitions(transitions, lambda x: np.full((len(x), 3), 1 / 3), Ones())
    assert data.fingerprint() != row().fingerprint()


def test_members_of_all_kinds_make_a_configuration():
    for rule in (PiBSPIBBDQN(n_wedge=float("inf")), ExactSoftSPIBBDQN(epsilon=1)):
        assert Member(0, rule, 2**64 - 1).to_config()["rule"] == rule.to_config()
