"""Minari data sets, made on the spot, are logs."""

import gymnasium
import numpy as np
import pytest

from spibb import Counts, Log, count_log, read_log
from spibb.envs import roll_out
from spibb.errors import DataError, SettingsError

minari = pytest.importorskip("minari", reason="minari is not installed")
WALK = np.full((16, 4), 0.25)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def data_set(log, name, observations, actions, kind="arrow", start=0):
    """Write a log with Minari's own writer."""
    from minari.data_collector import EpisodeBuffer

    buffers = []
    for episode in np.unique(log.episode):
        rows = np.flatnonzero(log.episode == episode)
        buffers.append(
            EpisodeBuffer(
                id=int(episode),
                observations=[*(start + log.state[rows]), start + log.next_state[rows[-1]]],
                actions=list(log.action[rows]),
                rewards=list(log.reward[rows]),
                terminations=list(log.terminated[rows]),
                truncations=list(log.truncated[rows]),
                infos={},
            )
        )
    return minari.create_dataset_from_buffers(
        name, buffers, observation_space=observations, action_space=actions, data_format=kind
    )


@pytest.fixture
def lake():
    env = gymnasium.make("FrozenLake-v1")
    return roll_out(env, WALK, n_episodes=40, max_steps=30, rng=np.random.default_rng(1))


# Minari warns of every fact that nobody gave.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["arrow", "hdf5"])
def test_a_data_set_is_the_log_it_was_made_of(lake, kind):
    spaces = gymnasium.spaces.Discrete(16), gymnasium.spaces.Discrete(4)
    made = data_set(lake, "toy/lake-v0", *spaces, kind=kind)
    for log in (read_log("minari:toy/lake-v0"), Log.from_minari("toy/lake-v0"),
                Log.from_minari(made)):  # fmt: skip
        assert log.content_hash == lake.content_hash
        assert (log.n_states, log.n_actions, log.state_labels) == (16, 4, None)
    counts = count_log("minari:toy/lake-v0", keep_ends=True)
    assert np.array_equal(counts.n_sa, Counts.from_log(lake).n_sa)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_spaces_that_begin_elsewhere_have_labels(lake):
    spaces = gymnasium.spaces.Discrete(16, start=5), gymnasium.spaces.Discrete(4)
    log = Log.from_minari(data_set(lake, "toy/later-v0", *spaces, start=5))
    assert log.state_labels == tuple(map(str, range(5, 21)))
    assert np.array_equal(log.state, lake.state)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_spaces_are_refused(lake):
    box = gymnasium.spaces.Box(0, 16, (), np.int64)
    made = data_set(lake, "toy/box-v0", box, gymnasium.spaces.Discrete(4))
    with pytest.raises(DataError, match=r"observations of the data set 'toy/box-v0' are Box.*"):
        Log.from_minari(made)


def test_what_is_not_there_is_not_fetched():
    with pytest.raises(DataError, match=r"'toy/none-v0' of Minari.*run: minari download toy/none"):
        read_log("minari:toy/none-v0")
    with pytest.raises(SettingsError, match=r"by with minari:toy/none-v0; expected the data set"):
        read_log("minari:toy/none-v0", by="ward")
