"""What users declare: where episodes begin, what may follow, that nothing else exists or ends."""

import json

import pytest

RANGE = ("--reward-range", "-2", "5")
START = "state,probability\nfever,1\n"
FOLLOWS = "state,next_state\nfever,fever\nfever,calm\ncalm,home\ncalm,fever\n"


@pytest.fixture
def bound(ward, spibb):
    """Improve with some options, and return the certificate's bound and its assumptions."""

    def run(*more, **changes):
        assert spibb(*ward.improve(*RANGE, "--overwrite", *more, **changes)).code == 0
        written = (ward.folder / "out/certificate.json").read_text("utf-8")
        found = json.loads(written)["guarantee"]
        return found["bound"], " ".join(found["assumptions"])

    return run


def test_each_declaration_tightens_the_bound_and_is_an_assumption(ward, bound):
    start = ("--initial", ward.write("start.csv", START))
    follows = ("--successors", ward.write("follows.csv", FOLLOWS))
    complete = ("--states-complete",)
    bounds = [bound()[0]]
    for options, said in [
        (start, "The first state is distributed as given."),
        (start + complete, "The process has no states or actions but those listed, as declared."),
        (start + complete + follows, "only by the successors that were given"),
    ]:
        found, assumed = bound(*options)
        assert said in assumed
        bounds.append(found)
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == len(bounds)
    seen, assumed = bound(*start, *complete, "--successors", "seen")
    assert "what can follow was seen to follow" in assumed
    assert seen == pytest.approx(bounds[-1]), "the log has seen all that the file names"


def test_successors_of_actions(ward, bound):
    pairs = "".join(
        f"{state},{action},{following}\n"
        for state, following in [line.split(",") for line in FOLLOWS.split()[1:]]
        for action in ("drug", "rest")
    )
    by_action = ward.write("by-action.csv", "state,action,next_state\n" + pairs)
    by_state = ward.write("by-state.csv", FOLLOWS)
    assert bound("--successors", by_action) == bound("--successors", by_state)


def test_a_larger_level_gives_a_larger_bound(bound):
    assert bound("--certificate-delta", "0.01")[0] < bound()[0]
    assert bound("--certificate-delta", "0.05")[0] == bound()[0]
    assert bound("--certificate-delta", "0.3")[0] > bound()[0]


def test_a_process_that_never_ends(ward, bound):
    endless = ward.text.replace(",True\n", ",False\n")
    log = ward.write("endless.csv", endless)
    baseline = ward.baseline.read_text("utf-8") + "home,drug,0.4\nhome,rest,0.6\n"
    known = {"log": log, "baseline": ward.write("home.csv", baseline)}
    before, assumed = bound("--states-complete", **known)
    after, said = bound("--states-complete", "--never-ends", **known)
    assert "never ends" in said
    assert "never ends" not in assumed
    assert after > before


def test_audit_takes_the_same(ward, spibb):
    more = ("--initial", ward.write("start.csv", START), "--states-complete",
            "--successors", "seen")  # fmt: skip
    spibb(*ward.improve(*RANGE, *more))
    policy = ward.folder / "out/policy.csv"
    audited = spibb(*ward.audit(policy, *RANGE, *more, "--format", "json"))
    expected = json.loads((ward.folder / "out/certificate.json").read_text("utf-8"))
    found = json.loads(audited.out)["guarantee"]
    assert found["bound"] == pytest.approx(expected["guarantee"]["bound"])
    assert found["delta"] == 0.05


def test_what_was_never_tried_ends_only_where_that_is_asked_for(ward, spibb, bound):
    """Rest was never tried in a calm state, where every reward is a cost."""
    rows = [line for line in ward.text.split() if ",calm,rest," not in line]
    costs = "\n".join(line.replace(",4.5,", ",-1.5,").replace(",5.0,", ",-1.0,") for line in rows)
    known = {"log": ward.write("costs.csv", costs + "\n")}
    greedy = ("--algorithm", "basic-rl", "--accept-baseline")

    def chosen(*more):
        bound(*greedy, *more, **known)
        policy = (ward.folder / "out/policy.csv").read_text("utf-8").replace('"', "")
        return {line.rsplit(",", 1)[0] for line in policy.split() if line.endswith((",1", ",1.0"))}

    assert "calm,rest" in chosen("--unseen", "terminal"), "ending for nothing is the best there is"
    assert "calm,rest" not in chosen()
    assert chosen() == chosen("--unseen", "average")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("state,probability\nfever,0.5\n", "initial sums to 0.5; expected probabilities that sum"),
        ("state,probability\nfeevr,1\n", "initial names the state 'feevr'; expected one of the"),
        ("state,probability\nfever,-1\n", "probability -1.0 (first at row 1 of "),
        ("state,probability\nfever,nan\n", "row 1"),
        ("state,prob\nfever,1\n", "has no column 'probability', but it has 'prob'"),
        ("state,probability\nfever,0.5\nfever,0.5\n", "has the state 'fever' twice"),
        ("state,probability\n", "has no rows"),
    ],
)
def test_wrong_starts(ward, refused, content, message):
    assert message in refused(*ward.improve("--initial", ward.write("start.csv", content)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("state,next_state\nfever,calm\n", "114 transitions that successors rule out (first at "),
        ("state,action,next_state\nfever,drog,calm\n", "successors names the action 'drog'"),
        ("state,next_state\nfeever,calm\n", "successors names the state 'feever'"),
        ("next_state\nfever\n", "has no column 'state', but it has 'next_state'"),
    ],
)
def test_wrong_successors(ward, refused, content, message):
    assert message in refused(*ward.improve("--successors", ward.write("follows.csv", content)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--never-ends"], "never_ends, but 57 rows of the log end the process"),
        (["--certificate-delta", "0"], "certificate_delta is 0.0; expected a number in (0, 1]"),
        (["--certificate-delta", "nan"], "certificate_delta is nan"),
        (["--unseen", "other"], "unseen is 'other'; expected one of 'average', 'terminal'"),
        (["--initial", "missing.csv"], "no such start distribution: missing.csv"),
        (["--successors", "missing.csv"], "no such list of successors: missing.csv"),
    ],
)
def test_wrong_declarations(ward, refused, options, message):
    assert message in refused(*ward.improve(*options))
