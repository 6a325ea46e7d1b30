"""What the source distribution holds: all that is needed to build, test and read about it."""

import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

import spibb

ROOT = Path(__file__).parents[1]
NEEDED = (
    "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "benchmarks/conftest.py", "docs/decisions.md", "examples", "requirements/core.txt",
    "src/spibb/deep/fused.cu", "tests/conftest.py", "tests/cli/conftest.py",
)  # fmt: skip


def test_it_holds_tests_documents_and_the_makefile(tmp_path):
    if not (ROOT / "MANIFEST.in").exists() or not os.access(ROOT / "src", os.R_OK):
        pytest.skip("the package is tested without its sources")
    copy = tmp_path / "copy"
    skipped = shutil.ignore_patterns(".*", "*.nb?", "*.pyc", "*.egg-info", "demo-result", "build")
    shutil.copytree(ROOT, copy, ignore=skipped)
    (copy / "tests" / "__pycache__").mkdir(exist_ok=True)
    (copy / "tests" / "__pycache__" / "left.pyc").write_bytes(b"")
    program = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, tmp_path], cwd=copy, check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    missing = [name for name in NEEDED if name not in names]
    assert missing == []
    for folder in ("tests", "docs", "benchmarks"):
        held = [name for name in names if name.startswith(f"{folder}/") and "." in Path(name).name]
        here = [path for path in (copy / folder).rglob("*") if path.is_file()]
        assert len(held) == len([path for path in here if path.suffix != ".pyc"])
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_one_version_is_told_everywhere():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {spibb.__version__}\n" in citation
    assert version("spibb") == spibb.__version__
    assert f"## {spibb.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
