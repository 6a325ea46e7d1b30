"""One way to write: whole or not at all, whoever else writes, whatever kills it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from spibb import TabularPolicy
from spibb.atomic_files import UNFINISHED, write_whole
from spibb.atomic_folders import write_folder
from spibb.errors import OutputError


def left_in(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    policy = TabularPolicy.uniform(3, 2)
    for name in ("policy.csv", "policy.parquet"):
        policy.write(tmp_path / name)
        before = (tmp_path / name).read_bytes()

        def fail(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OutputError, match="No space left on device"):
                TabularPolicy.uniform(2, 2).write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    assert not left_in(tmp_path)


def _write_often(path, byte):
    for _ in range(200):
        write_whole(path, bytes([byte]) * 100_000)


def test_two_writers_do_not_tear_each_other(tmp_path):
    path = tmp_path / "file"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write_often, args=(path, byte)) for byte in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 100_000
            seen |= {*content}
            assert len({*content}) == 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen <= {1, 2}
    assert not left_in(tmp_path)


def test_a_link_in_the_way_is_not_followed(tmp_path, monkeypatch):
    """Were the name of the unfinished file known, a link there could lead anywhere."""
    monkeypatch.setattr("spibb.atomic_files.secrets.token_hex", lambda _: "known")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".spibb-known{UNFINISHED}").symlink_to(victim)
    with pytest.raises(OutputError, match="exists"):
        write_whole(tmp_path / "file", b"x")
    assert victim.read_text() == "mine"


def test_a_link_that_is_meant_is_kept(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_users_mask_decides_who_may_read(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", b"x")
        write_folder(tmp_path / "out", lambda part: write_whole(part / "a", b"x"), known=())
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "out" / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_who_may_read_a_file_does_not_change_with_its_content(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o640)
    write_whole(tmp_path / "file", b"y")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def killed_while(tmp_path, body):
    """Run a process that writes the folder ``out``, and kill it when it says so."""
    program = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from spibb import atomic_folders

        out = Path(sys.argv[1])

        def wait(*_):
            print("here", flush=True)
            time.sleep(60)

        def fill(part):
            (part / "a").write_text("new")
        """
    ) + textwrap.dedent(body)
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)


def test_what_a_killed_run_left_is_swept(tmp_path):
    killed_while(tmp_path, "atomic_folders.write_folder(out, wait, known=())")
    assert len(left_in(tmp_path)) == 1
    write_folder(tmp_path / "out", lambda part: (part / "a").write_text("x"), known=("a",))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_result_that_was_put_aside_is_put_back(tmp_path):
    """Killed between taking the old folder away and putting the new one there."""
    write_folder(tmp_path / "out", lambda part: (part / "a").write_text("old"), known=("a",))
    killed_while(
        tmp_path,
        """
        kept = atomic_folders.Path.rename
        def rename(path, target):
            if path.name.startswith("."):  # the new folder, when the old one has gone
                wait()
            return kept(path, target)
        atomic_folders.Path.rename = rename
        atomic_folders.write_folder(out, fill, overwrite=True, known=("a",))
        """,
    )
    assert not (tmp_path / "out").exists()
    with pytest.raises(OutputError, match="exists already"):
        write_folder(tmp_path / "out", lambda _: None, known=("a",))
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert not left_in(tmp_path)


def test_folders_of_others_are_not_swept(tmp_path):
    """Names that look like ours, and leftovers of another folder whose name begins alike."""
    for name in (".out-20240131", ".out-deadbeef-earlier", ".spibb-0123456789abcdef-01234567"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_text("mine")
    long = "a" * 120
    killed_while(tmp_path, f"atomic_folders.write_folder(out.with_name('{long}1'), wait, known=())")
    write_folder(tmp_path / "out", lambda part: (part / "a").write_text("x"), known=("a",))
    write_folder(tmp_path / f"{long}2", lambda part: (part / "a").write_text("x"), known=("a",))
    assert len(left_in(tmp_path)) == 4


def test_a_run_that_goes_on_is_not_swept(tmp_path):
    """Two runs with the same folder: the second does not take the first one's files away."""

    def fill(part):
        (part / "a").write_text("first")
        write_folder(tmp_path / "out", lambda other: (other / "a").write_text("x"), known=("a",))
        assert (part / "a").read_text() == "first"

    with pytest.raises(OutputError, match="exists already"):
        write_folder(tmp_path / "out", fill, known=("a",))
    assert (tmp_path / "out" / "a").read_text() == "x", "the one that was there first stays"


def test_a_policy_with_lines_in_its_labels_is_read_back_at_any_size(tmp_path):
    n = 30_000
    labels = [f"state {k}\nof, {n}" for k in range(n)]
    policy = TabularPolicy(np.full((n, 2), 0.5), labels, ["do\nit", 'or "not"'])
    policy.write(tmp_path / "policy.csv")
    found = TabularPolicy.read(tmp_path / "policy.csv")
    assert set(found.state_labels) == set(labels)
    assert found.action_labels == ("do\nit", 'or "not"')


def test_settings_of_the_user_do_not_draw_our_figures(tmp_path):
    """A damaged file of settings, LaTeX, a screen that is not there, a date that is none."""
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe\x00 text.usetex True")
    program = """
        from spibb.pictures import own_settings
        with own_settings():
            from matplotlib.figure import Figure
            figure = Figure()
            figure.add_subplot().set_title("x")
            figure.savefig("figure.svg")
        """
    began = time.time()
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"MPLBACKEND": "nonsense", "SOURCE_DATE_EPOCH": "soon"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "figure.svg").stat().st_mtime >= began - 1
