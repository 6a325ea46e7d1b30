"""``make bench-check``: a figure that was once met stays met."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SPEED = """
def test_fast(figures):
    figures("what is fast", "1 s", "3 s", 3.0)


def test_several(figures):
    figures("one", "1 s", "4 s", 4.0)
    figures("another", "1 s", "2 s", 2.0)
"""


@pytest.fixture(scope="module")
def check():
    """Return the module."""
    spec = importlib.util.spec_from_file_location("bench_check", BENCHMARKS / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_worse_is_half_as_much_again_or_missing(check):
    stored = {"a": 3.0, "b": 3.0, "c": 3.0, "d": 0.3}
    assert check.worse(stored, {"a": 2.01, "b": 1.99, "d": 0.3}) == ["b", "c"]
    assert check.best({"a": 2.0, "b": 1.0}, {"b": 4.0, "c": 1.0}) == {"a": 2.0, "b": 4.0, "c": 1.0}


@pytest.fixture
def folder(tmp_path):
    """Return a folder of benchmarks, each with a ratio that never changes."""
    shutil.copy(BENCHMARKS / "conftest.py", tmp_path)
    (tmp_path / "test_speed.py").write_text(SPEED, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("stored", "code", "told"),
    [
        ({"fast": 4.4, "several": 2.9}, 0, "0 of 2 ratios"),
        ({"fast": 4.4, "several": 3.1}, 1, "1 of 2 ratios"),
    ],
)
def test_ratios_are_compared_with_the_table(folder, check, monkeypatch, capfd, stored, code, told):
    table = {f"test_speed.py::test_{name}": ratio for name, ratio in stored.items()}
    (folder / "ratios.json").write_text(json.dumps(table), "utf-8")
    monkeypatch.setattr(check, "N_TRIES", 1)
    monkeypatch.setattr(sys, "argv", ["check.py", "--folder", str(folder)])
    assert check.main() == code
    assert told in capfd.readouterr().out


def test_the_table_is_written(folder):
    table = folder / "ratios.json"
    table.write_text('{"test_speed.py::test_several": 1.0}', "utf-8")
    command = [sys.executable, BENCHMARKS / "check.py", "--write", "--folder", folder]
    subprocess.run(command, check=True, capture_output=True)
    assert json.loads(table.read_text("utf-8")) == {"test_speed.py::test_several": 2.0}


def test_the_stored_table_names_benchmarks_that_are_there():
    stored = json.loads((BENCHMARKS / "ratios.json").read_text("utf-8"))
    assert len(stored) > 5
    for name, ratio in stored.items():
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (BENCHMARKS / file).read_text("utf-8"), name
        assert ratio > 0.0
