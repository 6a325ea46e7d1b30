"""``spibb count``: counts for later, added to, and taken for a log."""

import json
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from spibb import Counts


def split(ward, day):
    """Write the rows of the ward up to a day, and those from it on, to two files."""
    head, *rows = ward.text.splitlines(keepends=True)
    is_early = [int(row.split(",")[1]) < day for row in rows]
    early = [row for row, is_one in zip(rows, is_early, strict=True) if is_one]
    late = [row for row, is_one in zip(rows, is_early, strict=True) if not is_one]
    return ward.write("today.csv", head + "".join(early)), ward.write(
        "tomorrow.csv", head + "".join(late)
    )


def test_tomorrow_is_added_and_improved_on(ward, spibb):
    today, tomorrow = split(ward, 2)
    ran = spibb("count", today, "--out", "counts.npz")
    assert ran.code == 0
    assert "80 episodes, 3 states, 2 actions" in ran.out
    ran = spibb("count", tomorrow, "--out", "counts.npz", "--add-to", "counts.npz")
    assert ran.code == 0
    n_rows = len(ward.text.splitlines()) - 1
    assert ran.out.startswith(f"{n_rows:,} rows, 80 episodes, 3 states, 2 actions")
    assert spibb(*ward.improve()).code == 0
    assert spibb(*ward.improve(log="counts.npz", out="counted")).code == 0
    policies = [(ward.folder / name / "policy.csv").read_bytes() for name in ("out", "counted")]
    assert policies[0] == policies[1]
    certificates = [
        json.loads((ward.folder / name / "certificate.json").read_text("utf-8"))["statement"]
        for name in ("out", "counted")
    ]
    assert certificates[0] == certificates[1]


def test_what_counts_cannot_tell_is_refused(ward, refused, spibb):
    assert spibb("count", ward.log, "--out", "counts.npz").code == 0
    evaluated = refused(
        "evaluate", "counts.npz", "--baseline", ward.baseline, "--policy", ward.baseline,
        "--gamma", 0.9,
    )  # fmt: skip
    assert "only counts were given" in evaluated
    assert "holds counts" in refused("inspect", "counts.npz")
    added = refused("count", ward.log, "--out", "again.npz", "--add-to", ward.log)
    assert "it is no archive of arrays; expected a file that Counts.save" in added
    said = refused("count", ward.log, "--out", "again.npz", "--add-to", "counts.npz")
    assert "an episode has steps 0 to" in said
    assert "exists already" in refused("count", ward.log, "--out", "counts.npz")
    assert "a name in .npz" in refused("count", ward.log, "--out", "counts.txt")
    assert "holds no counts" in refused(*ward.improve(log=ward.write("bad.npz", "no counts")))
    assert "No such file" in refused(*ward.improve(log="absent.npz"))


def test_a_file_that_may_not_grow_leaves_nothing(ward, spibb_process):
    spibb_process("count", ward.log, "--out", "counts.npz")
    before = (ward.folder / "counts.npz").read_bytes()
    names = sorted(path.name for path in ward.folder.iterdir())

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    for more in (("--out", "new.npz"), ("--out", "counts.npz", "--overwrite")):
        ran = spibb_process("count", ward.log, *more, preexec_fn=limit)
        assert ran.code == 2, ran
        assert "cannot write" in ran.err
        assert "File too large" in ran.err
        assert sorted(path.name for path in ward.folder.iterdir()) == names
    assert (ward.folder / "counts.npz").read_bytes() == before
    assert Counts.load("counts.npz").n_sa.any()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ctrl_c_ends_it_at_once(tmp_path, kind):
    n = 3_000_000
    table = pa.table({
        "episode": np.arange(n) // 50, "state": np.arange(n) % 997, "action": np.arange(n) % 7,
        "reward": np.arange(n) / 7,
    })  # fmt: skip
    folder = tmp_path / "log"
    days = [folder / f"day={k}" for k in range(40)]  # equal files of one day are refused
    for day in days:
        day.mkdir(parents=True)
    if kind == "parquet":
        pyarrow.parquet.write_table(table, days[0] / "00.parquet")
    else:
        pyarrow.csv.write_csv(table.slice(0, n // 4), days[0] / "00.csv")
    for day in days[1:]:
        (day / f"00.{kind}").symlink_to(days[0] / f"00.{kind}")
    arguments = ["count", folder, "--out", tmp_path / "counts.npz"]
    program = (
        "import sys; from spibb.data import counting\n"
        "from spibb.cli.app import main\n"
        "add = counting.StreamingCounts.add\n"
        "def told(self, *given):\n"
        "    found = add(self, *given)\n"
        "    if not hasattr(self, 'is_told'):\n"
        "        self.is_told = print('here', flush=True)\n"
        "    return found\n"
        "counting.StreamingCounts.add = told\n"
        "main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        process.communicate(timeout=30)
        assert time.monotonic() - begin < 10.0  # of a busy machine; a second of an idle one
    assert process.returncode in (130, 1, -signal.SIGINT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


def test_progress_is_shown_where_it_takes_long(ward, spibb, monkeypatch):
    monkeypatch.setattr("spibb.cli.shown_progress._LONG", -1.0)
    monkeypatch.setattr("spibb.cli.shown_progress._BETWEEN_LINES", -1.0)
    ran = spibb("count", ward.log, "--out", "counts.npz")
    n_rows = len(ward.text.splitlines()) - 1
    assert re.search(rf"Counting: {n_rows} rows, [\d,]+ a second, 0 s left", ran.err)
    asked = ("--baseline", ward.baseline, "--policy", ward.baseline, "--gamma", 0.9)
    ran = spibb("evaluate", ward.log, *asked)
    assert f"Reading: {n_rows} rows, " in ran.err
    assert re.search(r"Estimating: 1 estimates, [\d.]+ a second, [\d]+ s left", ran.err)
