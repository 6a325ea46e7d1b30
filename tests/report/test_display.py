"""What objects show of themselves: a few lines, and escaped HTML."""

import numpy as np
import pytest

import spibb

EVIL = "<script>alert(1)</script>"
RED = "\x1b[31mred"


@pytest.fixture(scope="module")
def large():
    """An improvement on as many states and actions as ICU-Sepsis has."""
    rng, n = np.random.default_rng(0), 3_000
    log = spibb.Log.from_arrays(
        state=rng.integers(0, 716, n), action=rng.integers(0, 25, n), reward=rng.random(n),
        episode=np.repeat(np.arange(n // 10), 10), n_states=716, n_actions=25,
    )  # fmt: skip
    baseline = spibb.TabularPolicy.uniform(716, 25)
    return spibb.PiBSPIBB(n_wedge=2).improve(log, baseline=baseline, gamma=0.9)


@pytest.fixture(scope="module")
def evil():
    """An improvement whose names are markup and commands to a terminal."""
    n = 40
    log = spibb.Log.from_arrays(
        state=np.arange(n) % 2, action=np.arange(n) // 2 % 2, reward=np.arange(n) % 5.0,
        episode=np.arange(n), state_labels=(EVIL, RED), action_labels=(EVIL, "b\nc"),
    )  # fmt: skip
    return spibb.PiBSPIBB(n_wedge=2).improve(log, baseline="estimate", gamma=0.9)


def shown(result):
    """Return everything that shows itself, of one result."""
    problem = result.problem
    return [
        result,
        spibb.Assessment.of(result),
        problem,
        problem.log,
        problem.counts,
        result.policy,
        result.problem.model,
        result.values,
        result.certificate,
        spibb.evaluate_policy(problem, policy=result.policy, estimators=["is", "dr"]),
        spibb.compare(problem, [spibb.BasicRL()]),
        spibb.improve_many([spibb.BasicRL()], [problem], certificate_delta=0.05),
    ]


def test_a_few_lines_for_hundreds_of_states(large):
    for part in shown(large):
        assert len(repr(part).splitlines()) <= 12, type(part)


def test_an_improvement_tells_what_matters(large):
    text = repr(large)
    for told in ("pi-b-spibb (n_wedge 2", "26 of 716 states", large.status.value,
                 large.certificate.statement, "write(folder)", "Assessment"):  # fmt: skip
        assert told in text


def test_an_assessment_tells_what_is_known_of_it(large):
    judged = spibb.Assessment.of(large)
    text = repr(judged)
    for told in ("pi-b-spibb (n_wedge 2", "26 of 716 states", "withheld",
                 large.certificate.statement, "verdict, risk and inspection"):  # fmt: skip
        assert told in text
    assert "risk" not in vars(judged), "nothing is drawn to show a line"
    assert judged.verdict.sentence in repr(judged)
    assert judged.risk.statement in repr(judged)


def test_what_an_evaluation_and_a_batch_show(large):
    evaluation, _, batch = shown(large)[-3:]
    assert "300 episodes, 3,000 rows; 95 % intervals by bca, approximate" in repr(evaluation)
    assert repr(batch).splitlines()[0].startswith("<Improvements: 1 algorithms on 1 problems")
    assert "converged 1" in repr(batch)


def test_names_are_neither_markup_nor_commands(evil):
    for part in shown(evil):
        assert "\x1b" not in repr(part)
        if hasattr(part, "_repr_html_"):
            page = part._repr_html_()
            assert "<script" not in page
            assert "\x1b" not in page
    assert "&lt;script&gt;" in evil.problem.log._repr_html_()
    assert "&lt;script&gt;" in evil.policy._repr_html_()


def test_results_logs_policies_and_tables_have_html(evil):
    parts = {type(part).__name__ for part in shown(evil) if hasattr(part, "_repr_html_")}
    assert parts >= {
        "Assessment", "Improvement", "Log", "TabularPolicy", "Comparison", "Certificate",
        "PolicyEvaluation",
    }  # fmt: skip


def test_a_log_with_missing_steps_says_so():
    log = spibb.Log.from_arrays(
        state=[0, 1, 0], action=[0, 0, 0], reward=[0.0, 1.0, 2.0], episode=[0, 0, 0], step=[0, 1, 5]
    )
    assert repr(log).splitlines()[-1] == "  missing  steps in 1 places>"


def test_a_result_writes_itself(evil, tmp_path):
    evil.write(str(tmp_path / "out"))
    assert (tmp_path / "out/report.html").exists()
    with pytest.raises(spibb.SpibbError, match="exists already"):
        evil.write(tmp_path / "out")
    evil.write(tmp_path / "out", overwrite=True)
