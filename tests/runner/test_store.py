"""The study's folder: parts whole or absent, and what is refused."""

import subprocess

import pyarrow as pa
import pytest
from running import SMOKE, TINY, content, mounted, run_all

from spibb.errors import DataError, OutputError, SettingsError
from spibb.runner.store import Store
from spibb.studies.running import run_study

TABLE = pa.table({"run": pa.array(range(1_000), pa.int32()), "score": [0.5] * 1_000})


def opened(folder, plan="seed = 1\n", *, resume=False):
    return Store.open(folder, plan, resume=resume)


def test_parts_come_back_in_the_order_of_the_jobs(tmp_path):
    with opened(tmp_path / "study") as store:
        store.write("0000002", TABLE.slice(500))
        store.write("0000001", TABLE.slice(0, 500))
        assert store.finished() == ({"0000001", "0000002"}, set())
        assert store.read().equals(TABLE)
        assert store.plan() == "seed = 1\n"
    assert sorted(content(tmp_path / "study")) == [
        "parts/0000001.parquet", "parts/0000002.parquet", "plan.toml",
    ]  # fmt: skip


def test_a_folder_with_a_study_needs_resume(tmp_path):
    for resume in (False, True):  # --resume on an absent folder begins it
        with opened(tmp_path / f"{resume}", resume=resume) as store:
            store.write("1", TABLE)
    with (
        pytest.raises(OutputError, match=r"holds a study already.*add --resume"),
        opened(tmp_path / "False"),
    ):
        pass
    with opened(tmp_path / "False", resume=True) as store:
        assert store.finished() == ({"1"}, set())


def test_another_plan_is_refused(tmp_path):
    with opened(tmp_path):
        pass
    with (
        pytest.raises(OutputError, match="begun with another plan; expected the same plan"),
        opened(tmp_path, "seed = 2\n", resume=True),
    ):
        pass


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_something_else_is_refused(tmp_path, resume):
    (tmp_path / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(OutputError, match=r"is no study: it holds thesis\.tex"),
        opened(tmp_path, resume=resume),
    ):
        pass
    assert content(tmp_path) == {"thesis.tex": b"years of work"}


def test_what_a_killed_process_leaves_is_swept_up(tmp_path):
    """A plan that was never renamed is no study yet; a part that was never renamed is no part."""
    (tmp_path / "plan.77.unfinished").write_bytes(b"see")
    with opened(tmp_path) as store:
        store.write("1", TABLE)
    (tmp_path / "parts" / "2.77.unfinished").write_bytes(b"PAR1")
    with opened(tmp_path, resume=True) as store:
        assert store.finished() == ({"1"}, set())
    assert sorted(content(tmp_path)) == ["parts/1.parquet", "plan.toml"]


def test_a_plan_without_its_folder_of_parts(tmp_path):
    """The moment between writing the plan and making the folder."""
    (tmp_path / "plan.toml").write_text("seed = 1\n")
    with opened(tmp_path, resume=True) as store:
        assert store.finished() == (set(), set())


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl", reason="needs locks of folders")
    with (
        opened(tmp_path),
        pytest.raises(OutputError, match="another process is at work in"),
        opened(tmp_path, resume=True),
    ):
        pass
    with opened(tmp_path, resume=True):
        pass


def test_no_study_and_no_results(tmp_path):
    with pytest.raises(DataError, match=r"is no study: it has no plan\.toml"):
        Store(tmp_path).plan()
    with opened(tmp_path) as store, pytest.raises(DataError, match="has no results yet"):
        store.read()


@pytest.mark.parametrize("size", [0, 3, 400, -1])
def test_a_truncated_part_is_seen(tmp_path, size):
    with opened(tmp_path) as store:
        store.write("1", TABLE)
        file = store.parts / "1.parquet"
        file.write_bytes(file.read_bytes()[:size])
        assert store.finished() == (set(), {"1"})
        with pytest.raises(DataError, match=r"is damaged.*delete it, then run the study with"):
            store.read()


def test_a_part_without_rows_is_seen(tmp_path):
    with opened(tmp_path) as store:
        store.write("1", TABLE.slice(0, 0))
        assert store.finished() == (set(), {"1"})
        with pytest.raises(DataError, match=r"1\.parquet is damaged: it has no rows"):
            store.read()


@pytest.mark.parametrize("name", ["parts", "compact"])
def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch, name):
    with opened(tmp_path) as store:
        store.write("1", TABLE)
    (tmp_path / "compact").mkdir()
    inside = type(tmp_path).iterdir

    def iterdir(folder):
        if folder.name == name:  # what the system says to all but the superuser
            raise PermissionError(13, "Permission denied")
        return inside(folder)

    monkeypatch.setattr(type(tmp_path), "iterdir", iterdir)
    with pytest.raises(DataError, match=rf"cannot read .*{name}: Permission denied.*may read it"):
        Store(tmp_path).files()


def test_a_changed_byte_is_seen_when_read(tmp_path):
    with opened(tmp_path) as store:
        store.write("1", TABLE)
        file = store.parts / "1.parquet"
        whole = bytearray(file.read_bytes())
        whole[60] ^= 1
        file.write_bytes(whole)
        with pytest.raises(DataError, match="is damaged"):
            store.read()


def test_a_damaged_part_is_computed_again(tmp_path, tiny_result):
    out = tmp_path / "study"
    run_all(TINY, out, workers=1)
    file = out / "parts" / "0000004.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    progress = run_all(TINY, out, workers=1, resume=True)
    assert [step.n_damaged for step in progress] == [1, 1]
    assert progress[0].n_done == progress[1].n_done - 1 == 99
    assert content(out) == tiny_result


def test_a_full_disk_midway(tmp_path, tiny_result):
    with mounted(tmp_path / "disk", "size=80k") as disk:
        with pytest.raises(OutputError, match=r"No space left on device.*goes on with --resume"):
            run_all(TINY, disk / "study", workers=2)
        kept = content(disk / "study")
        assert 1 < len(kept) < len(tiny_result)
        assert kept.items() <= tiny_result.items()
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        run_all(TINY, disk / "study", workers=1, resume=True)
        assert content(disk / "study") == tiny_result


def test_a_disk_too_full_to_begin(tmp_path):
    with mounted(tmp_path / "disk", "size=16k") as disk:
        (disk / "filler").write_bytes(b"x" * 16_384)
        with pytest.raises(OutputError, match="No space left on device"):
            run_all(SMOKE, disk / "study", workers=1)
        assert list(disk.iterdir()) == [disk / "filler"]


def test_a_read_only_disk(tmp_path):
    with mounted(tmp_path / "disk", "size=300k") as disk:
        progress = run_study(TINY, disk / "study", workers=1)
        next(progress), next(progress)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(OutputError, match="Read-only file system"):
            next(progress)
        with pytest.raises(OutputError, match="Read-only file system"):
            run_all(TINY, disk / "other", workers=1)
        assert sorted(content(disk)) == ["study/parts/0000000.parquet", "study/plan.toml"]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "study").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write .*study: File exists"):
        run_all(TINY, tmp_path / "study", workers=1)


def test_folding_puts_files_in_the_place_of_parts(tmp_path):
    with opened(tmp_path) as store:
        for job in ("0000001", "0000002", "0000003"):
            store.write(job, TABLE)
        assert store.folded() is None
        store.fold("0000002", {"sums.parquet": b"one"})
        assert store.folded() == "0000002"
        assert store.finished() == ({"0000002", "0000003"}, set())
        store.fold("0000004", {"sums.parquet": b"three", "more": b""})
    assert content(tmp_path) == {
        "compact/0000004/more": b"", "compact/0000004/sums.parquet": b"three",
        "plan.toml": b"seed = 1\n",
    }  # fmt: skip


def test_names_that_outgrow_their_zeros_stay_in_order(tmp_path):
    with opened(tmp_path) as store:
        for job in ("9999998", "10000002"):
            store.write(job, TABLE)
        assert [file.stem for file in store.files()] == ["9999998", "10000002"]
        store.fold("10000000", {"sums": b""})
        assert store.finished() == ({"10000002"}, set())
        store.fold("10000004", {"sums": b""})
        assert store.folded() == "10000004"


def test_a_disk_too_full_to_fold(tmp_path):
    with mounted(tmp_path / "disk", "size=100k") as disk, opened(disk / "study") as store:
        store.write("1", TABLE)
        before = content(disk / "study")
        with pytest.raises(OutputError, match="No space left on device"):
            store.fold("2", {"small": b"", "large": b"x" * 200_000})
        assert content(disk / "study") == before
        assert store.folded() is None


def test_what_others_put_there_is_left_alone(tmp_path):
    """A file browser leaves its notes everywhere; they must not be taken for results."""
    with opened(tmp_path) as store:
        for job in ("0000001", "0000002"):
            store.write(job, TABLE)
        store.fold("0000002", {"sums.parquet": b"one"})
    before = content(tmp_path)
    for folder in ("compact", "parts"):
        (tmp_path / folder / ".DS_Store").write_bytes(b"")
        (tmp_path / folder / "._0000002.parquet").write_bytes(b"")
    store = Store(tmp_path)
    assert store.folded() == "0000002"
    assert store.finished() == ({"0000002"}, set())
    with opened(tmp_path, resume=True) as store:
        store.write("0000003", TABLE)
        store.fold("0000003", {"sums.parquet": b"two"})
    found = content(tmp_path)
    assert sum(".DS_Store" in name or "._" in name for name in found) == 4
    assert found["compact/0000003/sums.parquet"] == b"two"
    assert set(before) - set(found) == {"compact/0000002/sums.parquet", "parts/0000002.parquet"}


def test_a_part_of_something_else(tmp_path):
    with opened(tmp_path) as store:
        store.write("0000001", TABLE)
        store.write("0000002", TABLE.drop_columns("score"))
        with pytest.raises(DataError, match=r"0000002\.parquet has other columns than .*0000001"):
            store.read()


def test_a_plan_that_is_no_text(tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"cannot read .*plan\.toml"):
        Store(tmp_path).plan()
    with (
        pytest.raises(DataError, match=r"cannot read .*plan\.toml"),
        opened(tmp_path, resume=True),
    ):
        pass
    assert content(tmp_path) == {"plan.toml": b"\xff\xfe"}


def test_what_cannot_be_done_at_all_leaves_no_folder(tmp_path):
    """Such as a cluster that is not there; a folder with results, or an older one, stays."""
    with pytest.raises(SettingsError), opened(tmp_path / "new"):
        raise SettingsError("no such cluster")
    with opened(tmp_path / "begun") as store:
        store.write("1", TABLE)
    (tmp_path / "empty").mkdir()
    for older in ("begun", "empty"):
        with pytest.raises(SettingsError), opened(tmp_path / older, resume=True):
            raise SettingsError("no such cluster")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "empty"]


def test_a_disk_too_full_for_the_plan_of_a_piece(tmp_path):
    with mounted(tmp_path / "disk", "size=16k") as disk:
        (disk / "filler").write_bytes(b"x" * 8_192)
        with (
            pytest.raises(OutputError, match="No space left on device"),
            Store.open(disk / "study", "x" * 9_000, resume=False, piece=(0, 4)),
        ):
            pass
        assert list(disk.iterdir()) == [disk / "filler"]


def test_a_piece_is_recorded(tmp_path):
    def piece(folder, piece, *, resume=False):
        return Store.open(folder, "seed = 1\n", resume=resume, piece=piece)

    with piece(tmp_path / "a", (4, 8)) as store:
        assert store.piece() == (4, 8)
    with piece(tmp_path / "a", (4, 8), resume=True) as store:
        assert store.piece() == (4, 8)
    with (
        pytest.raises(OutputError, match="begun with the runs 4 to 7; expected the runs 0 to 3"),
        piece(tmp_path / "a", (0, 4), resume=True),
    ):
        pass
    with opened(tmp_path / "b") as store:
        assert store.piece() is None
    # A folder that was left before it had a plan.
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "piece.toml").write_text("first = 0\nlast = 4\n")
    with opened(tmp_path / "c") as store:
        assert store.piece() is None
    (tmp_path / "c" / "piece.toml").write_text("first = 'none'\n")
    with pytest.raises(DataError, match=r"cannot read .*piece\.toml"):
        store.piece()
