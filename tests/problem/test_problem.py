"""A problem: made in one place, whoever asks; taken by everybody."""

import numpy as np
import pyarrow as pa
import pytest

from spibb import (
    HCPI,
    ApproxSoftSPIBB,
    Counts,
    Problem,
    TabularPolicy,
    audit,
    compare,
    evaluate_policy,
    improve_many,
)
from spibb.errors import DataError, SettingsError
from spibb.problem import ProblemBatch
from spibb.testing.checks import random_problem

_, BASELINE, LOG = random_problem(3, n_episodes=60)
ASKED = {"baseline": BASELINE, "gamma": 0.9, "reward_range": (-5.0, 5.0)}
PROBLEM = Problem.of(LOG, **ASKED)


def test_everybody_takes_a_problem_or_the_same_keywords():
    algorithm = ApproxSoftSPIBB(epsilon=1.0)
    by_problem, by_words = algorithm.improve(PROBLEM), algorithm.improve(LOG, **ASKED)
    policy = by_problem.policy
    np.testing.assert_array_equal(policy.probabilities, by_words.policy.probabilities)
    assert by_problem.certificate.to_dict() == by_words.certificate.to_dict()
    assert audit(PROBLEM, policy=policy).to_dict() == audit(LOG, policy=policy, **ASKED).to_dict()
    found = [
        evaluate_policy(*given, policy=policy, bound="betting", **words)
        for given, words in (((PROBLEM,), {}), ((LOG,), ASKED))
    ]
    assert found[0].to_dict() == found[1].to_dict()
    asked = {**ASKED, "baselines": ASKED["baseline"]}
    del asked["baseline"]
    many = improve_many([algorithm], [PROBLEM, PROBLEM])
    same = improve_many([algorithm], [LOG, LOG], **asked)
    np.testing.assert_array_equal(many.probabilities, same.probabilities)
    rows = [
        compare(*given, [algorithm], **words).rows
        for given, words in (((PROBLEM,), {}), ((LOG,), ASKED))
    ]
    assert rows[0] == rows[1]
    needed = HCPI().needed_episodes(PROBLEM), HCPI().needed_episodes(LOG, **ASKED)
    assert needed[0] == needed[1]


def test_a_table_is_a_log():
    columns = {
        name: getattr(LOG, name)
        for name in ("episode", "step", "state", "action", "reward", "next_state", "terminated")
    }
    columns["truncated"] = LOG.truncated
    table = pa.table({name: np.asarray(part) for name, part in columns.items()})
    found = Problem.of(table, **ASKED)
    np.testing.assert_array_equal(found.counts.n_sa, PROBLEM.counts.n_sa)


def test_a_part_is_the_problem_of_its_rows():
    rows = LOG.episode < 20
    part, alone = PROBLEM.part(rows), Problem.of(LOG.take(rows), **ASKED)
    np.testing.assert_array_equal(part.counts.n_sa, alone.counts.n_sa)
    assert part.values == alone.values
    observed = Problem.of(LOG, baseline=BASELINE, gamma=0.9)
    assert observed.part(rows).values.high == LOG.reward[rows].max()
    seen = Problem.of(LOG, **ASKED, successors="seen").part(rows).declared.successors
    expected = Problem.of(LOG.take(rows), **ASKED, successors="seen").declared.successors
    assert (seen != expected).nnz == 0


def test_a_batch_of_one_is_the_problem():
    alone, batch = ProblemBatch.alone(PROBLEM), ProblemBatch.of([PROBLEM] * 3)
    np.testing.assert_allclose(alone.baseline_values[0][0], batch.baseline_values[0][1], atol=1e-12)
    assert batch[-1] is PROBLEM
    assert batch[:2] == [PROBLEM, PROBLEM]
    with pytest.raises(IndexError):
        batch[3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"gamma": None}, "gamma is not given"),
        ({"baseline": None}, "baseline is not given"),
        ({"baseline": "guess"}, "baseline is 'guess'; expected a TabularPolicy, or 'estimate'"),
        ({"baseline": [[0.5, 0.5]]}, "make one of an array by TabularPolicy"),
        ({"epsilon": 1.0}, "no option of a problem is called 'epsilon'"),
        ({"reward_rang": (0, 1)}, "use 'reward_range'"),
        ({"unseen": "best"}, "unseen is 'best'"),
    ],
)
def test_what_is_refused(words, message):
    with pytest.raises(SettingsError, match=message):
        Problem.of(LOG, **{**ASKED, **words})


def test_a_problem_takes_nothing_beside_it():
    with pytest.raises(SettingsError, match="a problem was given, and more beside it"):
        ApproxSoftSPIBB().improve(PROBLEM, gamma=0.5)


def test_counts_have_no_episodes():
    problem = Problem.of(Counts.from_log(LOG), **ASKED)
    for asked in (problem.episodes, problem.returns, lambda: problem.part(LOG.episode < 3)):
        with pytest.raises(DataError, match="only counts were given"):
            asked()


def test_an_estimated_baseline_is_said():
    assert Problem.of(LOG, baseline="estimate", gamma=0.9).baseline.is_estimated
    assert not PROBLEM.baseline.is_estimated
    assert TabularPolicy.uniform(6, 3).states == LOG.states
