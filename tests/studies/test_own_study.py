"""A study of one's own: one file and one line that adds it, and everything else is there.

The file is put beside spibb with the entry point that its installation would leave. The command
line then runs the study in processes, killed and resumed, in pieces, merges, draws and publishes.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from folded_study import content

BUCKETS = '''
"""How full buckets are that leak."""

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.penalised import RaMDP
from spibb.studies.drawing import MEAN, View, draw_curves
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.registry import add_study
from spibb.studies.study import Study, by_cell


@dataclass(frozen=True, kw_only=True)
class BucketPlan(Plan):
    study: ClassVar[str] = "buckets"
    leak: tuple[float, ...] = factor("leak", float, lambda x: 0 <= x < 1, "a share in [0, 1)")
    drops: tuple[int, ...] = factor("drops", int)
    pause: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.demand("leak", "drops")


@by_cell
def run(plan, cell, seed):
    time.sleep(plan.pause)
    fallen = np.random.default_rng(seed).random((len(plan.settings), cell["drops"]))
    return fallen.mean(axis=1) - cell["leak"]


def draw(results):
    view = View(results, "leak", "drops")
    return [
        draw_curves(view, f"buckets-{leak:g}", f"Buckets, leak {leak:g}", view.algorithms(), leak)
        for leak in results.plan.leak
    ]


def pages(given):
    best = given[-1].of(MEAN, "Basic RL", leak=0.25).value.max()
    return {"buckets.md": {"facts": f"At best they are {best:.2f} full."}}


PLAN = BucketPlan(
    name="buckets", seed=7, n_runs=24, runs_per_job=2, leak=(0.25, 0.5), drops=(3, 30), pause=0.02,
    settings=(Setting.of("Basic RL", BasicRL()), Setting.of("RaMDP", RaMDP(kappa=1), "kappa", 1)),
)

add_study(Study(BucketPlan, run, (PLAN,), draw=draw, pages=pages))
'''  # fmt: skip
PAGE = """\
# Buckets

<!-- fill: facts -->
<!-- end: facts -->

<!-- fill: figures -->
<!-- end: figures -->
"""
SEEDS = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from buckets import PLAN
from spibb.runner.store import Store
from spibb.studies.running import compute_rows
rows = Store(Path(sys.argv[1])).read().to_pylist()
assert rows == compute_rows(replace(PLAN, pause=0.0), 0, 24).to_pylist()
seed = np.random.SeedSequence([7, 5], spawn_key=(1, 0))
expected = np.random.default_rng(seed).random((2, 3)).mean(axis=1) - 0.5
found = [row["score"] for row in rows if (row["run"], row["leak"], row["drops"]) == (5, 0.5, 3)]
assert np.allclose(found, expected), (found, expected)
assert len({row["score"] for row in rows}) == len(rows) == 24 * 4 * 2
"""


class Package:
    """A package of somebody else's, installed as far as Python can tell."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "buckets.py").write_text(BUCKETS, encoding="utf-8")
        about = folder / "buckets-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: buckets\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[spibb]\nbuckets = buckets\n")

    def start(self, *words):
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, *map(str, words)], text=True, cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def spibb(self, *words):
        process = self.start("-m", "spibb", *words)
        told, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, ""), errors
        return told


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return Package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def whole(package):
    """The study run in one go by two workers."""
    package.spibb("study", "run", "buckets", "--out", "whole", "--workers", 2)
    return package.folder / "whole"


def test_its_plans_are_listed(package):
    listed = json.loads(package.spibb("study", "list", "--format", "json"))
    assert listed["buckets"]["study"] == "buckets"
    assert listed["buckets"]["factors"] == {"leak": 2, "drops": 2}


def test_every_cell_has_its_own_seed(package, whole):
    """Scores depend neither on the grouping of runs nor on what else is run."""
    process = package.start("-c", SEEDS, whole)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def test_killed_in_the_middle_and_resumed(package, whole):
    out = package.folder / "killed"
    command = ["study", "run", "buckets", "--out", out, "--workers", 2]
    process = package.start("-m", "spibb", *command)
    end = time.monotonic() + 60
    while len(list(out.glob("parts/*.parquet"))) < 2:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert 2 <= len(list(out.glob("parts/*.parquet"))) < 12, "it was killed in the middle"
    assert "jobs are done already" in package.spibb(*command, "--resume")
    assert content(out) == content(whole)


def test_pieces_become_one(package, whole):
    for number in (1, 2):
        piece = ["--piece", f"{number}/2", "--workers", 1]
        package.spibb("study", "run", "buckets", "--out", f"piece{number}", *piece)
    package.spibb("study", "merge", "merged", "piece2", "piece1")
    assert content(package.folder / "merged") == content(whole)


def test_it_is_drawn_and_published(package, whole):
    docs = package.folder / "docs"
    docs.mkdir()
    (docs / "buckets.md").write_text(PAGE, encoding="utf-8")
    told = package.spibb("study", "publish", whole, docs)
    assert "2 places of" in told
    text = (docs / "buckets.md").read_text("utf-8")
    assert "At best they are 0.2" in text
    for leak in ("0.25", "0.5"):
        shown = f"![Buckets, leak {leak}](results/buckets/figures/buckets-{leak}.svg)"
        assert shown in text
        svg = (docs / f"results/buckets/figures/buckets-{leak}.svg").read_text("utf-8")
        assert "buckets, 24 runs" in svg
        assert "RaMDP, κ = 1" in svg
    published = sorted(path.name for path in (docs / "results/buckets").iterdir())
    assert published == ["aggregates.parquet", "figures", "plan.toml"]
    assert "2 figures are in" in package.spibb("study", "figures", docs / "results/buckets")


def test_its_plan_in_a_file_is_read_and_wrong_ones_are_refused(package, whole):
    text = (whole / "plan.toml").read_text("utf-8")
    assert text.startswith('version = 2\nstudy = "buckets"\n')
    file = package.folder / "mine.toml"
    file.write_text(text.replace("leak = [0.25, 0.5]", "leak = [0.25, 1.5]"), encoding="utf-8")
    process = package.start("-m", "spibb", "study", "run", file, "--out", "wrong")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert errors.startswith("Error: leak is 1.5; expected a share in [0, 1)")
    assert not (package.folder / "wrong").exists()
