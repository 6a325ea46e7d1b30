"""The judgement in finer states equals slow loops over rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma as gamma_distribution

from spibb.data.log import Log
from spibb.representation.dependence import dependence, explained_by_stratum
from spibb.representation.linear_gain import linear_gain
from spibb.representation.partition import Partition, grow
from spibb.representation.refine import Refiner
from spibb.representation.refined_gain import behaviour_value, refined_gain
from spibb.representation.splitters import Quantiles, Tree, Widths
from spibb.representation.steps import Steps
from spibb.testing import reference_representation as slow
from spibb.testing.strategies import distributions

DISCOUNTS = st.sampled_from((0.0, 0.5, 0.9, 1.0))
RAW = st.sampled_from((float("nan"), 0.0, 1.0, 1.0, 2.0, 5.0, 1e-235)) | st.floats(-3.0, 3.0)
EASY = settings(max_examples=60, deadline=None)


@st.composite
def logs(draw):
    """Return sizes, episodes, and raw columns; some states and actions never occur."""
    n_states, n_actions = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row = st.tuples(
        st.integers(0, n_states - 1), st.integers(0, n_actions - 1), st.integers(-3, 3).map(float)
    )
    episodes = []
    for rows in draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=5)):
        ends = draw(st.booleans())
        episodes.append([(*one, ends and k == len(rows) - 1) for k, one in enumerate(rows)])
    n, n_columns = sum(map(len, episodes)), draw(st.integers(1, 3))
    values = draw(st.lists(RAW, min_size=n * n_columns, max_size=n * n_columns))
    return (n_states, n_actions), episodes, np.reshape(values, (n, n_columns))


def steps_of(shape, episodes):
    """Return the steps of a log; each episode is one block, as in the slow version."""
    rows = [row for one in episodes for row in one]
    is_last = np.concatenate([np.arange(len(one)) == len(one) - 1 for one in episodes])
    terminated = np.array([row[3] for row in rows])
    log = Log.from_arrays(
        state=[row[0] for row in rows], action=[row[1] for row in rows],
        reward=[row[2] for row in rows], terminated=terminated, truncated=is_last & ~terminated,
        episode=np.repeat(np.arange(len(episodes)), [len(one) for one in episodes]),
        n_states=shape[0], n_actions=shape[1],
    )  # fmt: skip
    return log, Steps.of(log)


def by_episode(log, steps, influence):
    """Return influences of episodes, which are cut into blocks where they are few."""
    block_of = np.zeros(steps.n_blocks, dtype=int)
    block_of[steps.block] = np.cumsum(log.is_first)[steps.row] - 1
    block_of[steps.first_block] = np.arange(len(steps.first))
    return np.bincount(block_of, influence, len(steps.first))


def tables(data, n, n_actions):
    rows = st.lists(distributions(n_actions), min_size=n, max_size=n).map(np.array)
    return data.draw(rows), data.draw(rows)


@EASY
@given(logs(), DISCOUNTS, st.data())
def test_the_refined_gain_and_each_influence(found, gamma, data):
    shape, episodes, _ = found
    log, steps = steps_of(shape, episodes)
    if steps is None:
        assert slow.steps_of(episodes)[0] == []
        return
    n_cells = data.draw(st.integers(1, 4))
    code = data.draw(st.lists(st.integers(0, n_cells - 1), min_size=len(log), max_size=len(log)))
    table, baseline = tables(data, n_cells, shape[1])
    fast = refined_gain(steps, np.array(code), table, baseline, gamma)
    twin = slow.refined_gain(episodes, code, table, baseline, gamma)
    # With a discount of 1 a process that never ends in the model has values of 1e6.
    close = {"rel": 1e-6, "abs": 1e-8 if gamma < 1.0 else 1e-2}
    assert fast.gain == pytest.approx(twin.gain, **close)
    assert fast.label_loss == pytest.approx(twin.label_loss, **close)
    assert fast.unsupported == pytest.approx(twin.unsupported, **close)
    assert by_episode(log, steps, fast.influence) == pytest.approx(twin.influence, **close)


@EASY
@given(logs(), st.sampled_from((0.0, 0.5, 0.9)), st.data())
def test_the_linear_gain(found, gamma, data):
    shape, episodes, values = found
    _, steps = steps_of(shape, episodes)
    if steps is None:
        return
    table, _ = tables(data, *shape)
    try:
        twin = slow.linear_value(episodes, values, table, gamma)
    except np.linalg.LinAlgError:
        return
    if abs(twin) > 1e4:  # the system is nearly singular: rounding decides
        return
    fast = linear_gain(steps, values, table, gamma).gain
    fast += behaviour_value(steps, shape, gamma).value
    assert fast == pytest.approx(twin, rel=1e-6, abs=1e-6)


@EASY
@given(logs(), st.sampled_from((0.0, 0.5, 0.9)), st.data())
def test_with_columns_that_say_nothing_the_linear_gain_is_that_of_labels(found, gamma, data):
    shape, episodes, _ = found
    log, steps = steps_of(shape, episodes)
    if steps is None:
        return
    table, baseline = tables(data, *shape)
    constant = np.column_stack([log.state / 7.0, np.full(len(log), 0.1)])
    linear = linear_gain(steps, constant, table, gamma)
    labels = refined_gain(steps, log.state, table, baseline, gamma)
    assert linear.gain == pytest.approx(labels.gain, abs=1e-8)
    assert linear.influence == pytest.approx(labels.influence, abs=1e-8)


def test_influences_on_the_linear_gain_are_derivatives():
    """With an episode once more in many copies of the log, the gain moves by its influence."""
    rng = np.random.default_rng(0)
    lengths, (n_states, n_actions) = rng.integers(2, 9, 40), (3, 2)
    episodes = [
        [(int(rng.integers(n_states)), int(rng.integers(n_actions)), float(rng.normal()),
          bool(k == length - 1 and length % 2)) for k in range(length)]
        for length in lengths
    ]  # fmt: skip
    values = rng.normal(size=(lengths.sum(), 2))
    bounds, copies = np.append(0, np.cumsum(lengths)), 200
    table = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])

    def gain(chosen):
        rows = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in chosen])
        _, steps = steps_of((n_states, n_actions), [episodes[i] for i in chosen])
        return linear_gain(steps, values[rows], table, 0.9)

    whole = gain(list(range(40)))
    many = list(range(40)) * copies
    moved = np.array([(gain([*many, i]).gain - whole.gain) * copies for i in range(12)])
    assert moved == pytest.approx(whole.influence[:12], abs=0.03 * np.abs(whole.influence).max())


@EASY
@given(logs(), st.sampled_from(("quantiles", "widths", "tree")), st.integers(1, 3), st.data())
def test_cells_are_those_of_a_walk_through_the_tree(found, kind, least, data):
    shape, episodes, values = found
    log, _ = steps_of(shape, episodes)
    n, needed = len(log), np.full(shape[0], float(least))
    if kind == "tree":
        group = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
        targets = np.column_stack([log.reward, log.reward**2])
        split = Tree(values, needed, targets, group)
    else:
        relevance = np.linspace(0.1, 1.0, values.shape[1])
        split = (Quantiles if kind == "quantiles" else Widths)(values, needed, relevance)
    partition = grow(shape[0], log.state, needed, split)
    cells = partition.assign(log.state, values)
    nodes = list(
        zip(partition.column, partition.threshold, partition.left, partition.right, strict=True)
    )
    walked = [
        slow.cell_of(int(partition.root[s]), nodes, list(row))
        for s, row in zip(log.state, values, strict=True)
    ]
    assert cells.tolist() == walked
    assert (partition.label[cells] == log.state).all()
    # Every cell of a label with rows keeps enough of them, one that was never cut apart.
    sizes = np.bincount(cells, minlength=partition.n_cells)
    of_label = np.bincount(partition.label, minlength=shape[0])
    assert (sizes[of_label[partition.label] > 1] >= least).all()
    assert (of_label >= 1).all()
    # Unseen rows go somewhere, whatever is missing.
    unseen = partition.assign(np.arange(shape[0]), np.full((shape[0], values.shape[1]), np.nan))
    assert (partition.label[unseen] == np.arange(shape[0])).all()


@EASY
@given(logs(), st.booleans())
def test_dependence(found, of_pairs):
    shape, episodes, values = found
    log, _ = steps_of(shape, episodes)
    stratum = log.state * shape[1] + log.action if of_pairs else log.state
    targets = np.column_stack([log.reward, np.cos(7.0 * np.arange(len(log)))])
    fast = dependence(values, stratum, log.state, targets)
    for k, column in enumerate(values.T):
        share, between, mean, variance = slow.dependence(
            column, stratum.tolist(), log.state.tolist(), targets
        )
        assert fast.share[k] == pytest.approx(share, abs=1e-9)
        assert 0.0 <= fast.p_value[k] <= 1.0
        by_stratum = explained_by_stratum(values[:, k], stratum, log.state, targets)
        assert by_stratum.sum() == pytest.approx(between - mean, abs=1e-9)
        if variance > 1e-9:
            p_value = gamma_distribution.sf(between, mean**2 / variance, scale=variance / mean)
            assert fast.p_value[k] == pytest.approx(p_value, abs=1e-7)
        elif not np.isnan(variance):  # every order gives the same
            assert fast.p_value[k] == 1.0


@EASY
@given(logs(), DISCOUNTS, st.data())
def test_all_refinements_of_any_small_log_are_finite(found, gamma, data):
    shape, episodes, values = found
    _, steps = steps_of(shape, episodes)
    if steps is None:
        return
    table, baseline = tables(data, *shape)
    gains = dict(Refiner.of(steps, values, table, baseline, gamma).gains())
    assert list(gains) == ["quantiles", "equal widths", "tree", "linear"]
    for one in gains.values():
        assert np.isfinite([one.gain, one.error, one.label_loss, one.unsupported]).all()


def test_a_partition_of_one_cell_for_each_label_is_the_label():
    whole = Partition(
        *(np.array(x) for x in ([0, 1], [-1, -1], [0.0, 0.0], [0, 1], [0, 0], [0, 1]))
    )
    assert whole.assign(np.array([1, 0, 1]), np.zeros((3, 1))).tolist() == [1, 0, 1]
