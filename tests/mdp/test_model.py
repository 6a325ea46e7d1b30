"""What a model accepts, what it makes of it, and what it says when it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

from spibb.errors import ModelError, SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.model import TabularMDP

TRANSITION = np.array([[[0.25, 0.75], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]])
REWARD = np.array([[1.0, 2.0], [3.0, 4.0]])


def sparse(dense):
    s, a, _ = np.shape(dense)
    return sp.csr_array(np.reshape(dense, (s * a, s)))


both_forms = pytest.mark.parametrize("form", [np.array, sparse])


@both_forms
def test_fields(form):
    mdp = TabularMDP(form(TRANSITION), REWARD, gamma=0.9)
    assert (mdp.n_states, mdp.n_actions, mdp.gamma) == (2, 2, 0.9)
    np.testing.assert_array_equal(mdp.dense, TRANSITION)
    np.testing.assert_array_equal(mdp.rows.toarray(), TRANSITION.reshape(4, 2))
    np.testing.assert_array_equal(mdp.reward, REWARD)
    np.testing.assert_array_equal(mdp.ending, np.zeros((2, 2)))
    np.testing.assert_array_equal(mdp.terminal, [False, False])
    np.testing.assert_array_equal(mdp.initial, [0.5, 0.5])


@both_forms
def test_terminal_states_lead_nowhere_and_pay_nothing(form):
    mdp = TabularMDP(form(TRANSITION), REWARD, gamma=0.9, terminal=[False, True])
    assert not mdp.dense[1].any()
    np.testing.assert_array_equal(mdp.dense[0], TRANSITION[0])
    np.testing.assert_array_equal(mdp.reward, [[1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mdp.ending, [[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(mdp.initial, [1.0, 0.0])


@both_forms
def test_rows_may_end_in_part_or_in_whole(form):
    leaky = TRANSITION * np.array([[1.0, 0.5], [0.0, 1.0]])[:, :, None]
    mdp = TabularMDP(form(leaky), REWARD, gamma=1.0, ending=[[0.0, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(mdp.ending, [[0.0, 0.5], [1.0, 0.0]])
    leaky[0, 1] = 0.0
    mdp = TabularMDP(form(leaky), REWARD, gamma=1.0)
    np.testing.assert_array_equal(mdp.ending, [[0.0, 1.0], [1.0, 0.0]])


def test_all_states_terminal_is_a_model():
    mdp = TabularMDP(TRANSITION, REWARD, gamma=0.5, terminal=[True, True])
    np.testing.assert_array_equal(mdp.initial, [0.5, 0.5])


def test_duplicate_sparse_entries_add_up():
    twice = sp.coo_array(([0.5, 0.5], ([0, 0], [0, 0])), shape=(1, 1))
    np.testing.assert_array_equal(TabularMDP(twice, [[1.0]], 0.5).dense, [[[1.0]]])


def test_a_model_keeps_no_hold_on_its_inputs():
    transition, reward = TRANSITION.copy(), REWARD.copy()
    initial, terminal = np.array([0.5, 0.5]), np.array([False, False])
    mdp = TabularMDP(transition, reward, 0.9, initial=initial, terminal=terminal)
    transition[...] = reward[...] = initial[...] = 7.0
    terminal[...] = True
    np.testing.assert_array_equal(mdp.dense, TRANSITION)
    np.testing.assert_array_equal(mdp.reward, REWARD)
    np.testing.assert_array_equal(mdp.initial, [0.5, 0.5])
    assert not mdp.terminal.any()
    entries = sparse(TRANSITION)
    mdp = TabularMDP(entries, REWARD, 0.9)
    entries.data[:] = 7.0
    np.testing.assert_array_equal(mdp.dense, TRANSITION)


@pytest.mark.parametrize("name", ["transition", "reward", "initial", "terminal", "ending"])
def test_arrays_are_read_only(name):
    mdp = TabularMDP(TRANSITION, REWARD, gamma=0.9)
    with pytest.raises(ValueError, match="read-only"):
        getattr(mdp, name)[...] = 0


def test_fields_cannot_be_set():
    mdp = TabularMDP(TRANSITION, REWARD, gamma=0.9)
    with pytest.raises(AttributeError, match="gamma"):
        mdp.gamma = 0.5


@both_forms
def test_with_reward_keeps_the_rest(form):
    leaky = TRANSITION * 0.5
    mdp = TabularMDP(
        form(leaky),
        REWARD,
        0.9,
        initial=[0.1, 0.9],
        terminal=[False, True],
        ending=np.full((2, 2), 0.5),
    )
    other = mdp.with_reward(-REWARD)
    np.testing.assert_array_equal(other.reward, [[-1.0, -2.0], [0.0, 0.0]])
    for name in ("dense", "initial", "terminal", "ending", "gamma"):
        np.testing.assert_array_equal(getattr(other, name), getattr(mdp, name))


@pytest.mark.parametrize("reward", [[1.0, 2.0], np.empty((0, 2)), np.empty((2, 0)), 3.0])
def test_reward_must_be_a_table(reward):
    with pytest.raises(ModelError, match=r"reward table of shape .*\(states, actions\)"):
        TabularMDP(TRANSITION, reward, 0.9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_reward_must_be_finite(value):
    reward = REWARD.copy()
    reward[1, 0] = value
    with pytest.raises(ModelError, match=rf"reward {value} \(first at state 1, action 0\).*finite"):
        TabularMDP(TRANSITION, reward, 0.9)


@both_forms
def test_transition_must_fit_the_reward(form):
    wanted = r"\(2, 3, 2\)" if form is np.array else r"\(6, 2\)"
    with pytest.raises(ModelError, match=f"transition has shape .*expected {wanted} to match"):
        TabularMDP(form(TRANSITION), np.zeros((2, 3)), 0.9)


@both_forms
@pytest.mark.parametrize("value", [-0.25, np.nan, np.inf])
def test_transition_must_hold_probabilities(form, value):
    transition = TRANSITION.copy()
    transition[1, 0, 1] = value
    with pytest.raises(
        ModelError, match=rf"transition probability {value} \(first at state 1, action 0\)"
    ):
        TabularMDP(form(transition), REWARD, 0.9)


@both_forms
def test_transition_must_sum_to_one(form):
    transition = TRANSITION.copy()
    transition[1, 1, 1] = 0.4
    with pytest.raises(
        ModelError, match=r"sum to 0\.9 \(first at state 1, action 1\); expected 1.*`ending`"
    ):
        TabularMDP(form(transition), REWARD, 0.9)
    with pytest.raises(ModelError, match=r"sum to 1\.1 \(first at state 0, action 0\)"):
        TabularMDP(form(TRANSITION), REWARD, 0.9, ending=np.full((2, 2), 0.1))


@pytest.mark.parametrize("terminal", [[0, 1], [True], [[True, False]]])
def test_terminal_must_be_one_boolean_a_state(terminal):
    with pytest.raises(
        ModelError, match=r"terminal has shape .*one boolean for each of the 2 states"
    ):
        TabularMDP(TRANSITION, REWARD, 0.9, terminal=terminal)


@pytest.mark.parametrize("initial", [[1.0], [1.5, -0.5], [np.nan, 1.0]])
def test_initial_must_be_probabilities(initial):
    with pytest.raises(ModelError, match=r"initial .*expected a distribution over the 2 states"):
        TabularMDP(TRANSITION, REWARD, 0.9, initial=initial)


def test_initial_must_sum_to_one():
    with pytest.raises(ModelError, match=r"initial sums to 0\.9; expected a distribution"):
        TabularMDP(TRANSITION, REWARD, 0.9, initial=[0.5, 0.4])


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan, np.inf])
def test_gamma_must_be_a_discount(gamma):
    with pytest.raises(SettingsError, match=rf"gamma is {gamma}; expected a discount in \[0, 1\]"):
        TabularMDP(TRANSITION, REWARD, gamma)


def test_a_batch_lays_models_behind_each_other():
    first = TabularMDP(TRANSITION, REWARD, 0.9)
    second = TabularMDP(sparse(TRANSITION[:, ::-1]), -REWARD, 0.9, terminal=[False, True])
    batch = ModelBatch.stack([first, second])
    assert batch.shape == (2, 2, 2)
    assert batch.gamma == 0.9
    rows = sp.csr_array((batch.data, batch.indices, batch.indptr), shape=(8, 2)).toarray()
    np.testing.assert_array_equal(rows.reshape(2, 2, 2, 2), [first.dense, second.dense])
    np.testing.assert_array_equal(batch.reward, [first.reward, second.reward])
    np.testing.assert_array_equal(batch.ending, [first.ending, second.ending])
    np.testing.assert_array_equal(batch.initial, [first.initial, second.initial])


@pytest.mark.parametrize(
    "other",
    [
        TabularMDP(TRANSITION, REWARD, 0.8),
        TabularMDP(TRANSITION[:, :1], REWARD[:, :1], 0.9),
        TabularMDP([[[1.0], [1.0]]], [[1.0, 1.0]], 0.9),
    ],
    ids=["discount", "actions", "states"],
)
def test_a_batch_has_one_shape_and_one_discount(other):
    model = TabularMDP(TRANSITION, REWARD, 0.9)
    with pytest.raises(
        ModelError, match=r"first at problem 2\).*one discount.*once for each shape"
    ):
        ModelBatch.stack([model, model, other])
