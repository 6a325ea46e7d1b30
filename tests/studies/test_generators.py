"""Generators of random problems: valid draws, logs, noise, units of gains, and the lot."""

from dataclasses import replace

import numpy as np
import pytest

from spibb.data.counts import Counts
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.generator import Generator
from spibb.studies.generators.halves import draw_lot
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.rare_damage import damage_rate, expected_rows
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.generators.relabelling import with_actions_shuffled

GENERATOR = pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
SEEDS = range(4)
FAMILIES = {
    "costs", "traps", "delayed harm", "rare wins", "rare losses", "heavy tails", "populations",
    "slow mixing", "finite horizon", "undiscounted", "bandits", "contextual bandits",
    "many actions", "near-deterministic", "frontiers", "Simpson", "disease stages", "queues",
    "inventories", "maintenance", "replacement", "epidemics", "recovery", "random MDPs",
    "gridworlds", "alike actions", "common effects", "corridors", "tiny differences",
    "optimal baselines", "admission",
}  # fmt: skip


def drawn(generator, seed):
    return generator.draw(np.random.default_rng(seed))


def test_every_family_has_a_generator():
    assert {one.family for one in GENERATORS.values()} == FAMILIES
    assert len(GENERATORS) >= 32
    assert len({one.title for one in GENERATORS.values()}) == len(GENERATORS)


@GENERATOR
def test_a_generator_says_what_it_draws(generator):
    assert GENERATORS[generator.name] is generator
    assert generator.about[0].isupper()
    assert generator.about.endswith(".")
    assert ". " not in generator.about


@GENERATOR
def test_problems_are_small_and_valid(generator):
    for seed in SEEDS:
        instance = drawn(generator, seed)
        process, baseline = instance.process, instance.baseline.probabilities
        assert process.n_states <= 60
        assert process.n_actions <= 40
        assert 1 <= instance.max_steps <= 100
        assert baseline.shape == process.reward.shape
        np.testing.assert_allclose(process.dense.sum(axis=2) + process.ending, 1.0, atol=1e-9)
        np.testing.assert_allclose(baseline.sum(axis=1), 1.0, atol=1e-9)
        assert process.initial.sum() == pytest.approx(1.0)
        assert not process.initial[process.terminal].any()
        assert np.isfinite(solve(process).v).all()
        assert np.isfinite(evaluate(process, instance.baseline).v).all()


@GENERATOR
def test_there_is_a_gain_where_there_should_be_one(generator):
    for seed in SEEDS:
        instance = drawn(generator, seed)
        assert instance.has_gain == generator.has_gain
        gain = instance.range_of_gain()
        if generator.has_gain:
            assert gain >= 0.01 * instance.range_of_loss()
            assert gain > 1e-6
            assert instance.scale() == gain
        else:
            assert abs(gain) < 1e-9
            assert instance.scale() == instance.spread_of_returns()
        assert instance.scale() > 0.0


@GENERATOR
def test_problems_depend_on_the_seed_alone(generator):
    one, other = drawn(generator, 3), drawn(generator, 4)
    again = drawn(generator, 3)
    np.testing.assert_array_equal(one.process.dense, again.process.dense)
    np.testing.assert_array_equal(one.process.reward, again.process.reward)
    np.testing.assert_array_equal(one.process.initial, again.process.initial)
    np.testing.assert_array_equal(one.baseline.probabilities, again.baseline.probabilities)
    for name in ("max_steps", "reward_range", "noise", "damage_rate", "has_gain"):
        assert getattr(one, name) == getattr(again, name)
    logs = [each.log(20, np.random.default_rng(5)) for each in (one, again)]
    np.testing.assert_array_equal(logs[0].reward, logs[1].reward)
    np.testing.assert_array_equal(logs[0].action, logs[1].action)
    is_same = one.process.reward.shape == other.process.reward.shape
    assert not is_same or (one.process.reward != other.process.reward).any()


@GENERATOR
def test_logs_fit_process_and_baseline(generator):
    for seed in SEEDS:
        instance = drawn(generator, seed)
        process, baseline = instance.process, instance.baseline.probabilities
        log = instance.log(300, np.random.default_rng(seed))
        assert log.n_episodes == 300
        assert log.step.max() < instance.max_steps
        assert (log.n_states, log.n_actions) == process.reward.shape
        goes_on = log.next_state >= 0
        rows = log.state[goes_on], log.action[goes_on], log.next_state[goes_on]
        assert (process.dense[rows] > 0.0).all()
        # Actions are as frequent as the baseline says, within five standard deviations.
        n_sa = Counts.from_log(log).n_sa
        expected = n_sa.sum(axis=1, keepdims=True) * baseline
        variance = (expected * (1.0 - baseline)).sum(axis=0)
        assert (np.abs((n_sa - expected).sum(axis=0)) <= 5.0 * np.sqrt(variance) + 1e-6).all()
        assert (n_sa[baseline == 0.0] == 0).all()


@GENERATOR
def test_counts_are_those_of_the_log(generator):
    instance = drawn(generator, 1)
    counts = instance.counts(50, np.random.default_rng(2))
    other = Counts.from_log(instance.log(50, np.random.default_rng(2)))
    np.testing.assert_array_equal(counts.n_sa, other.n_sa)
    np.testing.assert_allclose(counts.reward_sum, other.reward_sum, atol=1e-9)
    np.testing.assert_array_equal(counts.n_sas.toarray(), other.n_sas.toarray())
    assert counts.reward_range == other.reward_range


@GENERATOR
def test_declared_ranges_hold_all_rewards(generator):
    for seed in range(8):
        instance = drawn(generator, seed)
        if instance.reward_range is None:
            continue
        low, high = instance.reward_range
        assert low < high
        live = ~instance.process.terminal
        mean, entry = instance.process.reward[live].ravel(), instance.process.entry_reward
        paid = mean if entry is None else entry[instance.process.rows.indices]
        if instance.noise is not None:
            paid = instance.noise(np.repeat(mean, 300), np.random.default_rng(seed))
        assert low <= paid.min()
        assert paid.max() <= high


@GENERATOR
def test_noise_keeps_means(generator):
    for seed in SEEDS:
        instance = drawn(generator, seed)
        if instance.noise is None:
            continue
        live = ~instance.process.terminal
        for mean in instance.process.reward[live].ravel()[:5]:
            seen = instance.noise(np.full(20_000, mean), np.random.default_rng(seed))
            assert seen.shape == (20_000,)
            error = seen.std() / seen.size**0.5
            assert seen.mean() == pytest.approx(mean, abs=5.0 * error + 1e-9)


def test_some_ranges_are_declared_and_some_are_not():
    instances = [drawn(one, seed) for one in GENERATORS.values() for seed in SEEDS]
    rare = [one for one in instances if one.damage_rate is not None]
    share = np.mean([one.reward_range is not None for one in rare])
    assert 0.35 < share < 0.65
    hidden = [[one for one in rare if not one.shows_damage(n)] for n in (10, 1_000)]
    assert all(one.reward_range is None for logs in hidden for one in logs)
    few, many = (len(logs) / len(rare) for logs in hidden)
    assert 0.0 < many < 0.2 < few < 0.6


@pytest.mark.parametrize("name", ["trap-seen", "late-reckoning", "rare-wins-reached"])
def test_rates_of_damage_are_those_of_logs(name):
    instance = drawn(GENERATORS[name], 2)
    process = instance.process
    counts = instance.counts(20_000, np.random.default_rng(0))
    rows = expected_rows(process, instance.baseline, instance.max_steps)
    np.testing.assert_allclose(counts.n_sa / 20_000, rows, rtol=0.15, atol=0.02)
    # The state of damage: the worst to enter, or the best where a win is given up.
    value = process.entry_reward if process.entry_reward is not None else process.reward.min(axis=1)
    place = value.argmax() if name == "rare-wins-reached" else value.argmin()
    into = counts.n_sas.toarray().reshape(process.dense.shape)[:, :, place]
    entered = into.sum() - into[place].sum()
    expected = instance.damage_rate * 20_000
    assert abs(entered - expected) < 5.0 * expected**0.5 + 1.0


def test_a_log_or_a_declared_range_shows_the_damage():
    process = TabularMDP(np.zeros((1, 2, 1)), [[1.0, 0.0]], 0.0)
    baseline = TabularPolicy([[0.9, 0.1]])
    rate = damage_rate(process, baseline, 1, np.array([[0.0, 0.03]]))
    assert rate == pytest.approx(0.003)
    hidden = Instance(process, baseline, 1, damage_rate=rate)
    assert not hidden.shows_damage(999)
    assert hidden.shows_damage(1_001)
    assert replace(hidden, reward_range=(0.0, 1.0)).shows_damage(1)
    assert replace(hidden, damage_rate=None).shows_damage(1)


def test_expected_rows_count_steps():
    stays = TabularMDP([[[0.5], [0.0]]], [[1.0, 1.0]], 0.9, ending=[[0.5, 1.0]])
    rows = expected_rows(stays, TabularPolicy([[1.0, 0.0]]), 3)
    np.testing.assert_allclose(rows, [[1.75, 0.0]])


def test_the_order_of_actions_changes_no_value():
    for name in ("sparse-garnet", "windy-grid", "click-banners"):
        instance = GENERATORS[name].make(np.random.default_rng(1))
        shuffled = with_actions_shuffled(instance, np.random.default_rng(2))
        assert shuffled.range_of_gain() == pytest.approx(instance.range_of_gain())
        assert shuffled.range_of_loss() == pytest.approx(instance.range_of_loss())
        reordered = np.sort(shuffled.baseline.probabilities, axis=1)
        np.testing.assert_array_equal(np.sort(instance.baseline.probabilities, axis=1), reordered)


def test_a_problem_without_a_clear_gain_is_drawn_again():
    process = TabularMDP(np.zeros((1, 2, 1)), [[1.0, 0.0]], 0.0)
    shares = iter([1.0, 0.999, 0.5])

    def some_problem(rng):
        """Draw a problem."""
        share = next(shares)
        return Instance(process, TabularPolicy([[share, 1.0 - share]]), 1)

    generator = Generator.of(some_problem, "none", "Some problem")
    assert (generator.name, generator.about) == ("some-problem", "A problem.")
    instance = drawn(generator, 0)
    assert instance.range_of_gain() == pytest.approx(0.5)
    assert instance.range_of_loss() == pytest.approx(0.5)


LOT = (
    "rare-losses-paid optimal-mixture machine-maintenance early-discharge trap-listed alike-wards "
    "many-moves hidden-traps disease-stages alike-moves alike-arms clustered-garnet stock-orders "
    "a-rare-kind trap-seen safe-side ending-by-chance common-drift goal-garnet strict-protocol "
    "stimulant given-to-the-mild patients-of-kinds student-noise common-drug rehabilitation "
    "endemic-waves toxic-treatment press-your-luck machine-replacement dose-toxicity many-arms "
    "lazy-walk queue-speeds sparse-contexts",
    "given-to-the-severe schools lognormal-means perishable-stock lognormal-rewards "
    "rare-wins-reached pareto-claims queue-two-lines sparse-contexts-by-rule windy-grid "
    "windy-field optimal-rule ward-transfers seasonal-pricing corridors-and-wards bed-admission "
    "tiny-differences late-reckoning tiny-effects sticky-blocks click-sessions holding-costs "
    "staged-choices fixed-habits outbreak cost-routes server-admission two-parts cliff-edge "
    "dense-garnet rare-losses-reached rare-wins-paid click-banners sparse-garnet one-bad-batch "
    "grid-with-pits",
)


def test_the_lot_is_the_one_that_was_recorded():
    lot = draw_lot()
    assert (" ".join(lot.development), " ".join(lot.judgement)) == LOT
    assert sorted(lot.development + lot.judgement) == sorted(GENERATORS)
