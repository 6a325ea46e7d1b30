"""Ids of episodes: in no page, message, JSON or picture; in an error with ``--show-ids``."""

import json

import pytest

ID = "patient-{:04d}"
# As text and as a number, an id that nothing else could print by chance.
SECRET = 7_340_127
STATES, ACTIONS = ("fever", "calm"), ("drug", "rest")


def rows(n=24, first=0, steps=2, secret="text"):
    """Return rows of short stays whose ids give a patient away."""
    told = []
    for stay in range(first, first + n):
        name = ID.format(stay) if secret == "text" else SECRET + stay
        for day in range(steps):
            action = ACTIONS[(stay + day) % 2]
            told.append((name, day, STATES[day % 2], action, stay % 3, "true" * (day == steps - 1)))
    return told


def csv(table, head="episode,step,state,action,reward,terminated"):
    return head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in table)


@pytest.fixture
def hides(ward, spibb):
    """Run a command, and look for ids in all that it prints and writes."""

    def run(*arguments, code=0):
        before = {path for path in ward.folder.rglob("*") if path.is_file()}
        ran = spibb(*arguments)
        assert ran.code == code, ran
        texts = {"stdout": ran.out, "stderr": ran.err}
        for path in ward.folder.rglob("*"):
            if path.is_file() and path not in before and path.suffix != ".npz":
                texts[path.name] = path.read_bytes().decode("utf-8", "replace")
        for name, text in texts.items():
            assert "patient" not in text, name
            assert str(SECRET)[:5] not in text, name
        return ran

    return run


POLICY = "state,action,probability\n" + "".join(f"{s},{a},0.5\n" for s in STATES for a in ACTIONS)


@pytest.mark.parametrize("secret", ["text", "number"])
def test_results_have_no_ids(ward, hides, secret):
    log = ward.write("stays.csv", csv(rows(secret=secret)))
    rule = ward.write("rule.csv", POLICY)
    known = ["--baseline", rule, "--gamma", 0.9]
    hides("improve", log, *known, "--algorithm", "basic-rl", "--by", "episode", "--out", "a")
    hides("improve", log, *known, "--compare", "basic-rl,pi-b-spibb", "--out", "b", "--format",
          "json")  # fmt: skip
    hides("improve", log, *known, "--algorithm", "basic-rl", "--out", "f", "--format", "csv")
    hides("audit", log, *known, "--policy", rule, "--format", "json")
    hides("audit", log, "--baseline", "estimate", "--gamma", 0.9, "--policy", rule)
    hides("evaluate", log, *known, "--policy", rule, "--out", "e")
    for printed in ("table", "json", "csv"):
        hides("inspect", log, "--baseline", rule, "--format", printed, "--picture",
              f"{printed}.svg")  # fmt: skip
    hides("count", log, "--out", "c.npz")


def test_a_record_that_stops_early_is_told_by_its_rows(ward, hides):
    """The condition on full records names the first one that is short."""
    table = [row for row in rows() if row[:2] != (ID.format(7), 1)]
    text = csv([(*row[:5], "true" if row[5] else "false") for row in table])
    log, rule = ward.write("stays.csv", text), ward.write("rule.csv", POLICY)
    ran = hides("audit", log, "--baseline", "estimate", "--gamma", 0.9, "--policy", rule,
                "--reward-range", 0, 2, "--format", "json")  # fmt: skip
    found = json.dumps(json.loads(ran.out))
    assert "row 15 of the log, sorted by episode and step" in found


def days(ward):
    """Write two days whose logs share an episode, and the counts of the first."""
    first = [row[:1] + row[2:] for row in rows(12)]
    later = [row[:1] + row[2:] for row in rows(12, first=11)]
    for name, table in (("monday", first), ("tuesday", later)):
        ward.write(f"days/{name}.csv", csv(table, "episode,state,action,reward,terminated"))


def test_an_episode_in_two_files(ward, hides, spibb):
    days(ward)
    command = ["inspect", "days"]
    told = hides(*command, code=2).err
    assert "the same episode is in two files: row 23 of days/monday.csv" in told
    assert "row 1 of days/tuesday.csv" in told
    assert "--show-ids shows it" in told
    assert len(told.splitlines()) == 1
    named = spibb(*command, "--show-ids").err
    assert "The episode is 'patient-0011'." in named
    for command in ("improve", "audit", "evaluate"):
        more = ["--out", "out"] if command == "improve" else ["--policy", ward.baseline]
        known = ["days", "--baseline", ward.baseline, "--gamma", 0.9, *more]
        hides(command, *known, code=2)
        assert "'patient-0011'" in spibb(command, *known, "--show-ids").err


@pytest.mark.parametrize(
    ("returns", "with_steps", "said"),
    [
        (False, False, "1 episode is in both logs"),
        (True, True, "1 episode goes on in the other log"),
        (False, True, "an episode has steps 0 to 1 in one log and 0 to 1 in the other"),
    ],
)
def test_counts_that_go_on(ward, hides, spibb, returns, with_steps, said):
    head = "episode,step,state,action,reward" if with_steps else "episode,state,action,reward"
    first, later = rows(12), rows(12, first=11)
    if returns:  # the last stay of the first day goes on
        later = [(*row[:1], row[1] + 2 * (row[0] == ID.format(11)), *row[2:]) for row in later]
    for name, table in (("one", first), ("two", later)):
        kept = [row[:5] if with_steps else (row[0], *row[2:5]) for row in table]
        ward.write(f"{name}.csv", csv(kept, head))
    more = ("--returns", 0.9) if returns else ()
    assert spibb("count", "one.csv", "--out", "one.npz", *more).code == 0
    add = ["count", "two.csv", "--add-to", "one.npz", "--out", "two.npz"]
    assert said in hides(*add, code=2).err
    assert "'patient-0011'" in spibb(*add, "--show-ids").err


def test_wrong_cells_of_the_column_of_episodes(ward, hides, spibb):
    lines = [
        json.dumps({"episode": name, "state": 0, "action": k % 2, "reward": 1})
        for k, name in enumerate([SECRET, SECRET + 1, ID.format(2)])
    ]
    ward.write("mixed.jsonl", "\n".join(lines) + "\n")
    told = hides("inspect", "mixed.jsonl", code=2).err
    assert "column 'episode' holds text (first at line 3 of mixed.jsonl)" in told
    assert "'patient-0002'" in spibb("inspect", "mixed.jsonl", "--show-ids").err
    ward.write("large.jsonl", lines[0].replace(str(SECRET), "9" * 25) + "\n")
    told = spibb("inspect", "large.jsonl").err
    assert "episode a number is out of range" in told
    assert "999" not in told
    ward.write("uneven.csv", csv(rows()) + f"{ID.format(3)},0\n")
    hides("inspect", "uneven.csv", code=2)
    ward.write("twice.csv", csv(rows() + rows(1)))
    told = hides("inspect", "twice.csv", code=2).err
    assert "rows 1 and 49" in told
    ward.write("empty.csv", csv([*rows(), ("", 0, "calm", "rest", 0, "")]))
    assert "row 49" in hides("inspect", "empty.csv", code=2).err
    ward.write("reward.csv", csv([*rows(), (ID.format(77), 0, "calm", "rest", "much", "")]))
    assert "row 49" in hides("inspect", "reward.csv", code=2).err


def test_data_frames(hides):
    """A column of numbers and texts cannot be read, and no message quotes a cell."""
    import spibb as package

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"episode": [SECRET, ID.format(1)], "state": [0, 0], "action": [0, 1], "reward": [1, 2]}
    )
    with pytest.raises(package.SpibbError, match="cannot read the data frame") as told:
        package.read_log(frame)
    assert "patient" not in str(told.value)
    assert "episode" in str(told.value), "the column is named"


def test_a_query(ward, hides):
    import sqlite3

    with sqlite3.connect(ward.folder / "stays.sqlite") as base:
        base.execute("create table stays (episode, state, action, reward)")
        base.executemany(
            "insert into stays values (?, 0, ?, 1)", [(5, 0), (6, 1), (ID.format(9), 1)]
        )
    base.close()
    query = "select * from stays order by rowid"
    told = hides("inspect", "stays.sqlite", "--query", query, code=2).err
    assert "column 'episode' holds text (first at row 3 of the query" in told
