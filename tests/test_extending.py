"""What CONTRIBUTING promises: each addition, made as it says, is found everywhere.

A package is put beside spibb, with the entry point that its installation would leave, and the
command line is asked for what it adds.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from launcher import Program, run_programs

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

    def run(self, *asked: list[str] | str) -> list[subprocess.CompletedProcess]:
        """Run the words of command lines, and Python, each in a process of its own."""
        place = {"folder": str(self.folder), "path": str(self.folder)}
        return run_programs([
            Program(code=textwrap.dedent(one), **place) if isinstance(one, str)
            else Program(tuple(one), **place)
            for one in asked
        ])  # fmt: skip

    def outputs(self, *asked: list[str] | str) -> list[str]:
        """Return what each of them prints."""
        ran = self.run(*asked)
        for done in ran:
            assert done.returncode == 0, done.stderr
        return [done.stdout for done in ran]


def commands(name: str) -> list[list[str]]:
    """Command lines that use an algorithm: alone, beside another, and tested on held-out data."""
    return [
        ["improve", *INPUTS, "--algorithm", name, "--out", "result"],
        ["improve", *INPUTS, "--compare", f"{name},basic-rl", "--out", "compared"],
        ["improve", *INPUTS, "--algorithm", "hcpi", "--set", f"candidates={name}", "--out", "held"],
    ]


CHECKED = """
from spibb.algorithms.base import Algorithm
from spibb.testing.checks import check_algorithm
check_algorithm(Algorithm.named({name!r})())
"""


def check_result(folder, listed, name):
    summary = json.loads((folder / "result/summary.json").read_text())
    assert listed[name]["algorithm"] == name
    assert summary["algorithm"] == listed[name]
    assert summary["n_states_changed"] > 0


def test_an_algorithm_with_a_step_that_exists(tmp_path):
    package = Package(tmp_path, example("An algorithm with a step that exists"))
    name = "my-algorithm"
    in_json, in_words, *_ = package.outputs(
        ["algorithms", "--format", "json"],
        ["algorithms"],
        *commands(name),
        CHECKED.format(name=name),
    )
    assert name in in_words
    check_result(tmp_path, json.loads(in_json), name)


def test_an_algorithm_with_a_step_of_its_own(tmp_path):
    """The commands share a process: to compile the step takes longer than all of them."""
    package = Package(tmp_path, example("An algorithm with a step of its own"))
    name = "half-way"
    in_json, _ = package.outputs(
        ["algorithms", "--format", "json"],
        f"""
import sys
from spibb.cli.app import main
for words in {commands(name)}:
    sys.argv = ["spibb", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code, words
{CHECKED.format(name=name)}""",
    )
    check_result(tmp_path, json.loads(in_json), name)


def test_an_error_function(tmp_path):
    package = Package(tmp_path, example("An error function"))
    out, found = package.outputs(
        ["improve", *INPUTS, "--error", "wider", "--out", "result", "--format", "json"],
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
        """,
    )
    assert json.loads(out)["algorithm"]["error"] == {"error": "wider", "factor": 2.0}
    assert found == "True\n"


def test_an_estimator(tmp_path):
    package = Package(tmp_path, example("An off-policy estimator"))
    policy, held_out = ["--policy", str(DEMO / "baseline.csv")], ["--algorithm", "hcpi"]
    evaluated, improved = package.outputs(
        ["evaluate", *INPUTS, *policy, "--estimator", "clipped-is", "--format", "json"],
        ["improve", *INPUTS, *held_out, "--set", "estimator=clipped-is", "--out", "tested"],
    )
    assert [part["estimator"] for part in json.loads(evaluated)["estimates"]] == ["clipped-is"]
    assert "Held-out test (HCPI, clipped-is by student-t)" in " ".join(improved.split())


def test_an_inspection_check(tmp_path):
    """The command line and the report find it, and its level counts."""
    package = Package(tmp_path, example("An inspection check"))
    log = pd.read_csv(DEMO / "log.csv")
    is_late = log["episode"] >= log["episode"].median()
    # The later half of the episodes is recorded for three steps only.
    log[~is_late | (log["step"] < 3)].to_csv(tmp_path / "shorter.csv", index=False)
    in_json, shorter, in_words, called, _ = package.outputs(
        ["inspect", *INPUTS[:-2], "--format", "json"],
        ["inspect", "shorter.csv", "--format", "json"],
        ["inspect", "shorter.csv"],
        """
        import json
        import spibb
        found = spibb.inspect("shorter.csv")
        print(json.dumps(found.to_dict()["tests"]))
        """,
        ["improve", *INPUTS, "--algorithm", "basic-rl", "--out", "result"],
    )
    sound, found = json.loads(in_json), json.loads(shorter)
    for one in (sound, found):
        tested = {part["check"]: part for part in one["tests"]}["episode-lengths"]
        assert tested["level"] == 0.001
        assert one["family_level"] == pytest.approx(0.011)
    assert not sound["findings"]
    (finding,) = (one for one in found["findings"] if one["check"] == "episode-lengths")
    assert (finding["severity"], finding["verdict_effect"]) == ("biased", "monitor")
    assert finding["p_value"] <= 0.001
    assert json.loads(called) == found["tests"]
    assert "1.1 of 100 sound logs" in " ".join(in_words.split())
    summary = json.loads((tmp_path / "result/summary.json").read_text())
    assert summary["inspection"]["tests"] == sound["tests"]
    assert "1.1 of 100 sound logs" in (tmp_path / "result/report.html").read_text("utf-8")


def test_an_environment(tmp_path):
    package = Package(tmp_path, example("An environment"))
    found, _, out = package.outputs(
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
        """,
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
        """,
        # The command line and its workers find it, as those who name it do not import it.
        ["study", "run", "valve.toml", "--out", "study", "--workers", "2"],
    )
    assert found.split() == ["4", "valve"]
    assert "4 runs are in study" in out


def test_a_plugin_that_fails_is_named(tmp_path):
    package = Package(tmp_path, "import nothing_of_this_name\n")
    listed, *others = package.run(
        ["algorithms"],
        # It stands in nobody's way who does not need it.
        ["improve", *INPUTS, "--error", "hoeffding-p", "--out", "result"],
        """
        from spibb.algorithms.base import Algorithm
        Algorithm.from_config({"algorithm": "hcpi", "estimator": "dr", "candidates": [
            {"algorithm": "approx-soft-spibb", "error": {"error": "hoeffding-q"}}]})
        """,
    )
    assert listed.returncode == 2
    assert "the plugin 'mine' cannot be imported: ModuleNotFoundError" in listed.stderr
    for done in others:
        assert done.returncode == 0, done.stderr


def test_an_id_of_the_package_is_not_taken_from_it(tmp_path):
    code = example("An algorithm with a step that exists").replace("my-algorithm", "basic-rl")
    Package(tmp_path, code)
    done = subprocess.run(
        [sys.executable, "-c", "import mine"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "MyAlgorithm has the id 'basic-rl', which BasicRL of spibb has" in done.stderr
