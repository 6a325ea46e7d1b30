"""Networks that have died: found, reported while training, and trained again if asked to."""

import dataclasses

import numpy as np
import pytest
from small_problems import random_data

from spibb.compiled.random_numbers import RESTARTS, numbers
from spibb.deep import training
from spibb.deep.dead import dead_members
from spibb.deep.forward import layer_places
from spibb.deep.population import Member, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.rules import DoubleDQN, ExactSoftSPIBBDQN
from spibb.deep.training import train_population

DATA = random_data()
# Three units and steps that are far too long: most of these trainings die.
DEADLY = TrainingSettings(hidden=(3,), n_passes=20, batch_size=8, learning_rate=0.1)
MEMBERS = [Member(0, rule, k) for rule in (DoubleDQN(), ExactSoftSPIBBDQN()) for k in range(10)]


@pytest.fixture(scope="module")
def population():
    return train_population(DATA, MEMBERS, DEADLY, engine="cpu")


def made(hidden, change, data=DATA):
    """Whether a network whose parameters were changed by hand is dead."""
    trainings = TrainingBatch([data], [Member(0, DoubleDQN(), 0)], TrainingSettings(hidden=hidden))
    state = PopulationState.start(trainings.members, trainings.sizes)
    change(state.params[0], layer_places(trainings.sizes))
    return bool(dead_members(trainings, state)[0])


@pytest.mark.parametrize("layer", range(3))
def test_a_layer_that_is_never_active_is_death(layer):
    def kill(flat, places):
        flat[places[layer][1] : places[layer][2]] = -1e3

    assert made((16, 8, 4), kill)
    assert not made((16, 8, 4), lambda flat, places: None)


def test_one_active_unit_at_one_state_is_life():
    """The unit max(0, x - t) is active only where the first coordinate is largest."""
    top = np.sort(DATA.state[:, 0])[-2:]

    def nearly(flat, places):
        first, middle, last, fan_in, fan_out = places[0]
        weight = flat[first:middle].reshape(fan_in, fan_out)
        weight[:], flat[middle:last] = 0.0, -1.0
        weight[0, 0], flat[middle] = 1.0, -top.mean()

    assert not made((16,), nearly)
    others = dataclasses.replace(DATA, state=np.minimum(DATA.state, top[0]))
    assert made((16,), nearly, others)


def test_what_is_no_death():
    # Q of one state is constant whatever the network.
    alone = dataclasses.replace(DATA, state=np.broadcast_to(DATA.state[:1], DATA.state.shape))
    assert not made((16, 8), lambda flat, places: None, alone)
    # Nothing in a linear network can die; what is not a number diverged.
    assert not made((), lambda flat, places: flat.fill(0.0))
    assert not made((16,), lambda flat, places: flat.fill(np.nan))


def test_trainings_die_by_themselves_and_are_found(population):
    values = [population.network(k).q(DATA.state) for k in range(len(population))]
    found = [np.ptp(q, axis=0).max() for q in values]
    np.testing.assert_array_equal(population.dead, np.array(found) == 0)
    assert 0 < population.dead.sum() < len(MEMBERS)
    assert not population.diverged.any()
    assert not population.n_restarts.any()


def test_deaths_are_reported_while_training(monkeypatch, population):
    monkeypatch.setattr(training, "_REPORT_SECONDS", 0.0)
    seen = []
    torch_engine = train_population(
        DATA, MEMBERS, DEADLY, engine="torch", device="cpu", progress=seen.append
    )
    assert seen[-1].n_dead == torch_engine.dead.sum() > 0
    counted = [part.n_dead for part in seen]
    assert counted == sorted(counted)
    assert len({part.n_dead for part in seen[:-1]} - {0}) > 0
    assert [part.passes for part in seen] == [20 * part.step / 750 for part in seen]


def test_members_that_died_are_trained_again(population):
    again = train_population(DATA, MEMBERS, DEADLY, engine="cpu", restarts=6)
    alive = ~population.dead
    np.testing.assert_array_equal(again.params[alive], population.params[alive])
    np.testing.assert_array_equal(again.curves.loss[alive], population.curves.loss[alive])
    assert again.dead.sum() < population.dead.sum()
    np.testing.assert_array_equal(again.n_restarts > 0, population.dead)
    assert (again.n_restarts[again.dead] == 6).all()
    for k in np.flatnonzero(population.dead)[:4]:
        assert again.members[k].seed == int(numbers(k % 10, RESTARTS, int(again.n_restarts[k])))
        # By its own seed, whoever else is trained.
        alone = train_population(DATA, MEMBERS[k], DEADLY, engine="cpu", restarts=6)
        np.testing.assert_array_equal(alone.params[0], again.params[k])
        np.testing.assert_array_equal(alone.curves.loss[0], again.curves.loss[k])
        plain = train_population(DATA, again.members[k], DEADLY, engine="cpu")
        np.testing.assert_array_equal(plain.params[0], again.params[k])


class StoppedError(Exception):
    """Raised where a training is to be interrupted."""


def test_an_interrupted_restart_resumes_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_REPORT_SECONDS", 0.0)
    whole = train_population(DATA, MEMBERS, DEADLY, engine="cpu", restarts=2)
    call = {"engine": "cpu", "restarts": 2, "checkpoint": tmp_path / "state"}

    def interrupt(progress):
        if progress.restart == 1 and 0 < progress.step < progress.n_steps:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_population(DATA, MEMBERS, DEADLY, progress=interrupt, **call)
    resumed = train_population(DATA, MEMBERS, DEADLY, **call)
    np.testing.assert_array_equal(resumed.params, whole.params)
    np.testing.assert_array_equal(resumed.curves.loss, whole.curves.loss)
    assert resumed.members == whole.members
    names = sorted(part.name for part in tmp_path.iterdir())
    assert names == ["state", "state.restart-1", "state.restart-2"]
