"""Compiled code where no cache folder can be written, as for a service without a home."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spibb

PROGRAM = """
import numpy as np
from spibb.compiled import jit, random_numbers, variates  # two modules that compile
assert variates.uniform(np.zeros(1, np.uint64)) > 0.0
import numba, os
print(numba.config.CACHE_DIR)
"""
NOBODY = 65534


@pytest.fixture
def elsewhere(tmp_path):
    """Return a command and an environment that can write to a folder for temporary files alone."""
    # Root may write anywhere, whatever the mode says: it becomes another user.
    package, temporary = tmp_path / "src" / "spibb", tmp_path / "tmp"
    shutil.copytree(
        Path(spibb.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    temporary.mkdir()
    for folder, _, files in os.walk(tmp_path / "src"):
        os.chmod(folder, 0o555)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
    command: list[str] = []
    if os.getuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if shutil.which("setpriv") is None:
            pytest.skip("root writes anywhere, and there is no setpriv to become another user")
        os.chown(temporary, NOBODY, NOBODY)
        # Folders of pytest's own alone: how many there are depends on its workers.
        for folder in (tmp_path, *tmp_path.parents):
            if folder != tmp_path and not folder.name.startswith(("pytest-", "popen-")):
                break
            os.chmod(folder, 0o755)
        readable = subprocess.run([*command, sys.executable, "-c", "import numpy"], check=False)
        if readable.returncode != 0:
            pytest.skip("another user cannot read Python and its packages here")
    given = {"PYTHONPATH": str(tmp_path / "src"), "HOME": "/nonexistent", "PATH": os.defpath,
             "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    yield [*command, sys.executable, "-c", PROGRAM], given, temporary
    for folder, _, _ in os.walk(tmp_path / "src"):
        os.chmod(folder, 0o755)  # so that pytest can remove it


def test_compiled_code_is_kept_in_a_temporary_folder(elsewhere):
    command, given, temporary = elsewhere
    for _ in range(2):
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (folder,) = temporary.glob("spibb-compiled-*")
        assert done.stdout == f"{folder}\n"
        # Once, though several modules compile.
        assert done.stderr.splitlines() == [
            f"Note: no folder for compiled code can be written. It is kept in {folder}; "
            "set NUMBA_CACHE_DIR to a folder that lasts."
        ]
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(folder.rglob("*.nbi"))


def test_a_folder_that_others_can_write_to_is_not_taken(elsewhere):
    command, given, temporary = elsewhere
    user = NOBODY if os.getuid() == 0 else os.getuid()
    planted = temporary / f"spibb-compiled-{user}"
    planted.mkdir()
    planted.chmod(0o777)
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() != str(planted)
    assert list(planted.iterdir()) == []


def test_without_any_folder_nothing_is_kept(elsewhere):
    command, given, temporary = elsewhere
    temporary.chmod(0o555)
    code = command[-1].replace("print(numba.config.CACHE_DIR)", "")
    # Python looks for a folder for temporary files in some places of its own.
    code = "import tempfile\ntempfile._candidate_tempdir_list = lambda: []\n" + code
    done = subprocess.run(
        [*command[:-1], code], env=given, capture_output=True, text=True, check=False
    )
    temporary.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("It is not kept, and every start takes a minute") == 1
