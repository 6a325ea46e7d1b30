"""The study on random MDPs: rows that depend on the run alone, and scores checked by hand."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from study_rows import keys, ordered

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB, ExactSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.data.counts import Counts
from spibb.envs.garnet import Garnet
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate
from spibb.mdp.planning import solve
from spibb.runner.store import Store
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.study import draw_run, estimate
from spibb.studies.registry import PLANS
from spibb.studies.running import compute_rows, run_study

SMOKE = PLANS["random-mdps-smoke"]


def run_and_read(plan, out, **options):
    for _ in run_study(plan, out, **options):
        pass
    return Store(out).read()


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in sorted((folder / "parts").iterdir())}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The folder of the smoke study, run with one worker."""
    out = tmp_path_factory.mktemp("smoke") / "one"
    run_and_read(SMOKE, out, workers=1)
    return out


def test_every_cell_once(smoke):
    table = Store(smoke).read()
    assert table.num_rows == 8 * 2 * 2 * len(SMOKE.settings)
    assert table.column_names == ["run", "eta", "trajectories", "setting", "score"]
    found = set(zip(*(table[key].to_pylist() for key in keys(SMOKE)), strict=True))
    assert found == {
        (run, eta, size, label)
        for run in range(8) for eta in (0.1, 0.9) for size in (10, 100) for label in SMOKE.labels
    }  # fmt: skip
    assert [str(field.type) for field in table.schema if field.name in ("run", "score")] == [
        "int32", "float",
    ]  # fmt: skip


def test_the_number_of_workers_changes_no_byte(smoke, tmp_path):
    run_and_read(SMOKE, tmp_path / "two", workers=2)
    assert bytes_of(tmp_path / "two") == bytes_of(smoke)
    assert len(bytes_of(smoke)) == 4


@pytest.mark.parametrize(("runs_per_job", "workers"), [(1, 2), (3, 1), (8, 1)])
def test_the_grouping_of_runs_changes_no_row(smoke, tmp_path, runs_per_job, workers):
    plan = replace(SMOKE, runs_per_job=runs_per_job)
    found = run_and_read(plan, tmp_path / "study", workers=workers)
    assert ordered(found) == ordered(Store(smoke).read())


def test_other_runs_and_other_settings_change_no_row(smoke):
    """Run 5 alone, with one setting left out, has the rows that it has in company."""
    alone = compute_rows(replace(SMOKE, settings=SMOKE.settings[1:]), 5, 6)
    table = Store(smoke).read()
    rows = table.filter(pa.compute.equal(table["run"], 5))
    left = pa.compute.not_equal(rows["setting"].cast(pa.string()), SMOKE.settings[0].label)
    assert ordered(alone) == ordered(rows.filter(left))


def test_another_seed_changes_the_scores(smoke):
    assert ordered(compute_rows(replace(SMOKE, seed=2), 0, 8)) != ordered(Store(smoke).read())


@pytest.mark.parametrize("second_goal", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("unseen", ["terminal", "average"])
def test_the_score_by_hand(second_goal, unseen):
    """Rebuild one run from its id, step by step, and compute (rho - rho_b) / (rho* - rho_b)."""
    algorithms = {
        "basic": BasicRL(),
        "pi-b": PiBSPIBB(n_wedge=5),
        "soft": ApproxSoftSPIBB(epsilon=0.5, delta=1.0),
    }
    run, etas, sizes = 17, (0.3, 0.8), (5, 40)
    plan = replace(
        SMOKE, seed=99, n_states=15, n_actions=3, n_successors=2, gamma=0.9, eta=etas,
        trajectories=sizes, max_steps=30, second_goal=second_goal, unseen=unseen,
        settings=tuple(_setting(label, part) for label, part in algorithms.items()),
    )  # fmt: skip
    found = compute_rows(plan, run, run + 1).to_pylist()

    rng = np.random.default_rng(np.random.SeedSequence([99, run]))
    garnet = Garnet.random(rng, n_states=15, n_actions=3, n_successors=2, gamma=0.9)
    world = garnet.with_second_goal(rng, second_goal) if second_goal else garnet
    truth = world.to_mdp()
    expected = []
    for eta in etas:
        baseline = garnet.baseline(eta, rng)
        low, high = evaluate(truth, baseline).performance, solve(truth).performance
        for size in sizes:
            seeds = np.random.SeedSequence([99, run, etas.index(eta), sizes.index(size)])
            rng_log = np.random.default_rng(seeds)
            counts = Counts.sample(truth, baseline, n_episodes=size, max_steps=30, rng=rng_log)
            for label, algorithm in algorithms.items():
                asked = {"baseline": baseline, "gamma": 0.9, "unseen": unseen}
                policy = algorithm.improve(counts, **asked).policy
                score = (evaluate(truth, policy).performance - low) / (high - low)
                expected.append({
                    "run": run, "eta": eta, "trajectories": size, "setting": label,
                    "score": pytest.approx(score, rel=1e-5, abs=1e-6),
                })  # fmt: skip
    assert found == expected
    assert any(abs(row["score"]) > 0.01 for row in found)


@pytest.mark.parametrize("unseen", ["terminal", "average"])
def test_the_models_are_those_of_the_counts_and_the_counts_those_of_the_log(unseen):
    plan = replace(SMOKE, n_states=12, n_actions=3, n_successors=3, second_goal=-1.0, unseen=unseen)
    drawn = [one for run in range(3) for one in draw_run(plan, run)]
    problems = estimate(drawn)
    expected = ModelBatch.stack([one.problem.counts.estimate(plan.gamma, unseen) for one in drawn])
    for name in ("reward", "ending", "initial"):
        np.testing.assert_array_equal(getattr(problems.models, name), getattr(expected, name))
    for found, model in zip(dense(problems.models), dense(expected), strict=True):
        np.testing.assert_array_equal(found, model)
    for place, one in enumerate(drawn):
        counts = Counts.from_log(one.log())
        np.testing.assert_array_equal(problems.n_sa[place], counts.n_sa)
        assert (counts.n_sas != one.problem.counts.n_sas).nnz == 0
        assert len(one.starts) == plan.trajectories[one.size]


def test_a_problem_leaves_what_was_drawn_alone():
    drawn = draw_run(replace(SMOKE, n_states=12), 0)
    before = [(one.n_pairs.copy(), one.n_entries.copy()) for one in drawn]
    for one, (n_pairs, n_entries) in zip(drawn, before, strict=True):
        assert one.problem.counts.n_sas.nnz < len(n_entries)
        np.testing.assert_array_equal(one.n_pairs, n_pairs)
        np.testing.assert_array_equal(one.n_entries, n_entries)


def dense(batch):
    """Return P of each model of a batch."""
    n_problems, n_states, n_actions = batch.shape
    rows = sp.csr_array((batch.data, batch.indices, batch.indptr))
    rows.resize((n_problems * n_states * n_actions, n_states))
    return rows.toarray().reshape(n_problems, -1)


def test_algorithms_that_need_the_log_do_not_depend_on_grouping():
    settings = (
        _setting("hcpi", HCPI(delta=0.5, train_share=0.3)),
        _setting("robust", RobustMDP(delta=0.9)),
    )
    plan = replace(SMOKE, n_states=8, n_actions=2, n_successors=2, settings=settings)
    together = compute_rows(plan, 0, 3).slice(8)
    assert together.equals(pa.concat_tables([compute_rows(plan, 1, 2), compute_rows(plan, 2, 3)]))
    assert np.abs(together["score"].to_numpy()).max() > 0


ENGINES = """
import json, sys
import numpy as np
from pathlib import Path
from spibb.runner.store import Store
from spibb.studies.registry import read_plan
from spibb.studies.running import run_study
plan, out = read_plan(sys.stdin.read()), Path(sys.argv[1])
for engine in ("local", "cuda"):
    list(run_study(plan, out / engine, engine=engine, workers=1))
local, cuda = (Store(out / engine).read() for engine in ("local", "cuda"))
keys = ["run", "eta", "trajectories", "setting"]
scores = [table["score"].to_numpy().astype(float) for table in (local, cuda)]
print(json.dumps({
    "keys": local.select(keys).equals(cuda.select(keys)),
    "apart": float(np.abs(scores[0] - scores[1]).max()),
    "largest": float(np.abs(scores[0]).max()),
}))
"""


def test_the_engines_local_and_cuda_agree(tmp_path):
    """On the GPU if there is one, else in Numba's simulator, which runs the same kernels."""
    pytest.importorskip("numba.cuda", reason="needs the extra gpu")
    plan = replace(
        SMOKE, n_runs=1, n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5,),
        trajectories=(20,), settings=(SMOKE.settings[0], *SMOKE.settings[3:6:2]),
    )  # fmt: skip
    simulated = {} if Path("/dev/nvidiactl").exists() else {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ENGINES, str(tmp_path)], input=plan.to_toml(), text=True,
        capture_output=True, check=True, timeout=300, env={**os.environ, **simulated},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["keys"]
    assert found["apart"] < 1e-6  # scores are stored in single precision
    assert found["largest"] > 0.01


def test_the_baseline_scores_zero():
    settings = (
        _setting("approx", ApproxSoftSPIBB(epsilon=0.0, delta=1.0)),
        _setting("exact", ExactSoftSPIBB(epsilon=0.0, delta=1.0)),
        _setting("pi-b", PiBSPIBB(n_wedge=float("inf"))),
    )
    scores = compute_rows(replace(SMOKE, settings=settings), 0, 4)["score"].to_numpy()
    assert len(scores) == 4 * 4 * 3
    np.testing.assert_allclose(scores, 0.0, atol=1e-6)


def test_no_score_above_the_optimum():
    plan = replace(SMOKE, n_states=10, n_actions=2, n_successors=2, trajectories=(10, 2_000))
    table = compute_rows(plan, 0, 30)
    scores = table["score"].to_numpy()
    assert np.isfinite(scores).all()
    assert scores.max() <= 1 + 1e-6
    # With 2,000 trajectories of so small a process, some policies are optimal.
    assert scores.max() > 1 - 1e-6


def _setting(label, algorithm):
    config = {name: part for name, part in algorithm.to_config().items() if part is not None}
    return Setting(label, config)
