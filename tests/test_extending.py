"""What CONTRIBUTING promises: each addition, made as it says, is found everywhere.

A package is put beside spibb, with the entry point that its installation would leave, and the
command line is asked for what it adds.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DEMO = ROOT / "src/spibb/cli/demo"
INPUTS = [str(DEMO / "log.csv"), "--baseline", str(DEMO / "baseline.csv"), "--gamma", "0.95"]


def example(title: str) -> str:
    """The Python of CONTRIBUTING under a heading."""
    part = GUIDE[GUIDE.index(f"## {title}") :].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)
    return code


class Package:
    """A package of somebody else's, installed as far as Python can tell."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        (folder / "mine.py").write_text(code, encoding="utf-8")
        about = folder / "mine-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[spibb]\nmine = mine\n")

    def run(self, *words: str) -> subprocess.CompletedProcess:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": path}, cwd=self.folder,
        )  # fmt: skip

    def spibb(self, *words: str) -> str:
        done = self.run("-m", "spibb", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, code: str) -> str:
        done = self.run("-c", textwrap.dedent(code))
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("An algorithm with a step that exists", "my-algorithm"),
        ("An algorithm with a step of its own", "half-way"),
    ],
)
def test_an_algorithm(tmp_path, title, name):
    package = Package(tmp_path, example(title))
    listed = json.loads(package.spibb("algorithms", "--format", "json"))
    assert listed[name]["algorithm"] == name
    assert name in package.spibb("algorithms")
    out = package.spibb(
        "improve", *INPUTS, "--algorithm", name, "--out", "result", "--format", "json"
    )
    assert json.loads(out)["algorithm"] == listed[name]
    assert json.loads((tmp_path / "result/summary.json").read_text())["n_states_changed"] > 0
    package.spibb("improve", *INPUTS, "--compare", f"{name},basic-rl", "--out", "compared")
    candidates = f"candidates={name}"
    package.spibb("improve", *INPUTS, "--algorithm", "hcpi", "--set", candidates, "--out", "tested")
    package.python(
        f"""
        from spibb.algorithms.base import Algorithm
        from spibb.testing.checks import check_algorithm
        check_algorithm(Algorithm.named({name!r})())
        """
    )


def test_an_error_function(tmp_path):
    package = Package(tmp_path, example("An error function"))
    out = package.spibb(
        "improve", *INPUTS, "--error", "wider", "--out", "result", "--format", "json"
    )
    assert json.loads(out)["algorithm"]["error"] == {"error": "wider", "factor": 2.0}
    found = package.python(
        """
        import json
        from mine import Wider
        from spibb import ApproxSoftSPIBB
        from spibb.algorithms.base import Algorithm
        from spibb.testing.checks import check_algorithm
        once = ApproxSoftSPIBB(error=Wider(factor=3.0))
        again = Algorithm.from_config(json.loads(json.dumps(once.to_config())))
        print(again == once)
        check_algorithm(once)
        """
    )
    assert found == "True\n"


def test_an_estimator(tmp_path):
    package = Package(tmp_path, example("An off-policy estimator"))
    policy = ["--policy", str(DEMO / "baseline.csv")]
    out = package.spibb(
        "evaluate", *INPUTS, *policy, "--estimator", "clipped-is", "--format", "json"
    )
    assert [part["estimator"] for part in json.loads(out)["estimates"]] == ["clipped-is"]
    out = package.spibb(
        "improve",
        *INPUTS,
        "--algorithm",
        "hcpi",
        "--set",
        "estimator=clipped-is",
        "--out",
        "tested",
    )
    assert "Held-out test (HCPI, clipped-is by student-t)" in " ".join(out.split())


def test_an_environment(tmp_path):
    package = Package(tmp_path, example("An environment"))
    found = package.python(
        """
        from mine import Valve
        from spibb.studies.finite.processes import PROCESSES
        from spibb.studies.finite.plans import PLANS
        from spibb.studies.running import compute_rows
        from dataclasses import replace
        small = replace(
            PLANS[0], process=("valve",), share=(0.5,), steps=(200,), settings=PLANS[0].settings[:2]
        )
        rows = compute_rows(small, 0, 2)
        print(rows.num_rows, PROCESSES["valve"].title)
        """
    )
    assert found.split() == ["4", "valve"]
    # The command line and its workers find it, as those who name it do not import it.
    package.python(
        """
        from dataclasses import replace
        from pathlib import Path
        from mine import Valve
        from spibb.studies.finite.plans import PLANS
        small = replace(
            PLANS[0], process=("valve",), share=(0.5,), steps=(200,), n_runs=4, runs_per_job=2,
            settings=PLANS[0].settings[:2],
        )
        Path("valve.toml").write_text(small.to_toml())
        """
    )
    out = package.spibb("study", "run", "valve.toml", "--out", "study", "--workers", "2")
    assert "4 runs are in study" in out


def test_a_plugin_that_fails_is_named(tmp_path):
    package = Package(tmp_path, "import nothing_of_this_name\n")
    done = package.run("-m", "spibb", "algorithms")
    assert done.returncode == 2
    assert "the plugin 'mine' cannot be imported: ModuleNotFoundError" in done.stderr
    # It stands in nobody's way who does not need it.
    package.spibb("improve", *INPUTS, "--error", "hoeffding-p", "--out", "result")
    package.python(
        """
        from spibb.algorithms.base import Algorithm
        Algorithm.from_config({"algorithm": "hcpi", "estimator": "dr", "candidates": [
            {"algorithm": "approx-soft-spibb", "error": {"error": "hoeffding-q"}}]})
        """
    )


def test_an_id_of_the_package_is_not_taken_from_it(tmp_path):
    code = example("An algorithm with a step that exists").replace("my-algorithm", "basic-rl")
    done = Package(tmp_path, code).run("-c", "import mine")
    assert "MyAlgorithm has the id 'basic-rl', which BasicRL of spibb has" in done.stderr
