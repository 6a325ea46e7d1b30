"""The command line as a process of its own: exit codes, full disks, pipes, other terminals."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@contextmanager
def mounted(folder, options):
    """Mount a small filesystem of its own, or skip where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command, so no disk can be made full")
    if done.returncode != 0:
        pytest.skip(f"may not mount a filesystem to fill: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("command", ["", "improve", "study run"])
def test_help_waits_for_nothing_heavy(command):
    code = (
        "import sys; from spibb.cli.app import app\n"
        f"try: app([*{command.split()!r}, '--help'])\n"
        "except SystemExit as left: assert not left.code\n"
        "heavy = {'numpy', 'numba', 'pyarrow', 'scipy', 'matplotlib'} & {*sys.modules}\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


@pytest.mark.parametrize("command", ["improve", "evaluate"])
def test_commands_load_neither_pandas_nor_what_draws(command, ward):
    """Though they are installed: each takes longer to load than a million rows to read."""
    judged = ["--policy", ward.baseline] if command == "evaluate" else ["--out", "out"]
    words = [command, ward.log, "--baseline", ward.baseline, "--gamma", "0.9", *judged]
    code = (
        f"import sys; sys.argv = ['spibb', *{list(map(str, words))!r}]\n"
        "from spibb.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as left: assert not left.code\n"
        "heavy = {'pandas', 'matplotlib', 'duckdb'} & {*sys.modules}\n"
        "assert not heavy, heavy\n"
        "import pandas\n"  # who wants it has it all the same
        "assert pandas.DataFrame({'a': [1]}).shape == (1, 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ward.folder
    )
    assert done.returncode == 0, done.stderr


def test_improve_then_audit(ward, spibb, spibb_process):
    """Exit codes 0 and 1 of processes, and the same bytes whatever the order of hashes is."""
    ran = spibb_process(*ward.improve(), environment={"PYTHONHASHSEED": "1"})
    assert (ran.code, ran.err) == (0, "")
    again = spibb_process(*ward.improve(out="again"), environment={"PYTHONHASHSEED": "2"})
    assert again.code == 0
    assert content(ward.folder / "out") == content(ward.folder / "again")
    policy = ward.folder / "out" / "policy.csv"
    kept = spibb(*ward.audit(policy, "--epsilon", "0.5", "--format", "json"))
    assert kept.code == 0
    issued = json.loads((ward.folder / "out" / "certificate.json").read_text("utf-8"))
    assert json.loads(kept.out)["statement"] == issued["statement"]
    assert spibb_process(*ward.audit(policy, "--epsilon", "0.01")).code == 1
    refused = spibb(*ward.improve())
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"Error: {ward.folder / 'out'} exists already. "
        "To fix it: choose another folder, or add --overwrite.\n"
    )


def test_a_full_disk(ward, spibb):
    with mounted(ward.folder / "disk", "size=16k") as disk:
        ran = spibb(*ward.improve(out="disk/out"))
        assert ran.code == 2
        assert ran.err.startswith("Error: cannot write ")
        assert "No space left on device" in ran.err
        assert "check that the disk has room" in ran.err
        assert len(ran.err.splitlines()) == 1
        assert list(disk.iterdir()) == []


def test_an_earlier_result_survives_a_full_disk(ward, spibb):
    with mounted(ward.folder / "disk", "size=300k") as disk:
        assert spibb(*ward.improve(out="disk/out")).code == 0
        before = content(disk / "out")
        room = os.statvfs(disk)
        filler = disk / "filler"
        filler.write_bytes(b"x" * (room.f_bavail * room.f_bsize - 16_384))
        ran = spibb(*ward.improve("--overwrite", "--epsilon", "0.1", out="disk/out"))
        assert ran.code == 2
        assert "No space left on device" in ran.err
        assert content(disk / "out") == before
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "out"]


def test_a_read_only_disk(ward, spibb):
    with mounted(ward.folder / "disk", "size=300k,ro") as disk:
        ran = spibb(*ward.improve(out="disk/out"))
        assert ran.code == 2
        assert "Read-only file system" in ran.err
        assert "you may write there" in ran.err
        assert list(disk.iterdir()) == []


def test_a_limit_on_the_size_of_files(ward, spibb, spibb_process):
    """Works without the right to mount: the page is larger than the limit."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))

    # Compiled code that is not yet kept on disk could not be kept under the limit.
    assert spibb(*ward.improve(out="before")).code == 0
    ran = spibb_process(*ward.improve(), preexec_fn=limit)
    assert ran.code == 2
    assert "cannot write" in ran.err
    assert "File too large" in ran.err
    assert len(ran.err.splitlines()) == 1
    left = sorted(path.name for path in ward.folder.iterdir())
    assert left == ["baseline.csv", "before", "log.csv"]


@pytest.mark.parametrize("printed", ["table", "json"])
def test_output_that_cannot_be_printed(ward, printed):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full, a device that is always full")
    command = [
        sys.executable,
        "-m",
        "spibb",
        *ward.audit(ward.baseline),
        "--format",
        printed,
    ]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [str(part) for part in command], stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "Error: cannot print the result: No space left on device.\n"


def test_a_reader_that_goes_away(ward):
    command = [
        sys.executable,
        "-m",
        "spibb",
        *ward.audit(ward.baseline, "--format", "json"),
    ]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [str(part) for part in command], stdout=writing, stderr=subprocess.PIPE, text=True,
            timeout=120, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


def test_a_terminal_without_the_letters(ward, spibb_process):
    for name in ("log.csv", "baseline.csv"):
        text = (ward.folder / name).read_text("utf-8").replace("fever", "Fieber ü 🤒")
        ward.write(name, text)
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    ran = spibb_process(*ward.improve(), environment=ascii_only)
    assert (ran.code, ran.err) == (0, "")
    assert "Fieber \\xfc" in ran.out
    policy = ward.folder / "out" / "policy.csv"
    audit = ward.audit(policy, "--epsilon", "0.001", "--format", "json")
    ran = spibb_process(*audit, environment=ascii_only)
    assert ran.code == 1
    places = [check["where"] for check in json.loads(ran.out)["checks"]]
    assert "state Fieber ü 🤒" in places


def test_the_program_is_installed_beside_python():
    program = os.path.join(os.path.dirname(sys.executable), "spibb")
    if not os.path.exists(program):
        pytest.skip("spibb is not installed as a program here")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("spibb ")


def test_ctrl_c_is_answered_inside_of_compiled_code():
    """A factorisation of a large model is one call of minutes; so is this one."""
    program = """
import hashlib
from spibb.cli.interrupts import prompt_interrupts
with prompt_interrupts():
    print("here", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"here\n"
        time.sleep(0.5)  # until it is in there
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == b"Interrupted.\n"


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as a POSIX shell does")
def test_closed_output_ends_no_command_and_no_file_takes_its_place(tmp_path):
    program = (
        "import sys; from spibb.cli.app import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "finally: print(open('new', 'w').fileno(), file=open('told', 'w'))"
    )
    shell = f'cd "{tmp_path}" && exec "{sys.executable}" -c "$0" >&- 2>&-'
    done = subprocess.run(["sh", "-c", shell, program], check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert int((tmp_path / "told").read_text("ascii")) > 2
    assert (tmp_path / "new").read_bytes() == b""
    command = f'"{sys.executable}" -m spibb --help >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
