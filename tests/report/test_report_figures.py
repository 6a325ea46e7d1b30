"""The picture of changes for papers and notebooks."""

import numpy as np
import pytest

import spibb
from spibb.pictures import own_settings, to_svg
from spibb.report.changes import result_changes
from spibb.report.figures import change_figure


def drawn(n_states=3, n_actions=2, n_shown=12, **names):
    """Draw a result in which every state changes: action 0 pays, the others do not."""
    states = np.repeat(np.arange(n_states), 2 * n_actions)
    actions = np.tile(np.arange(n_actions), 2 * n_states)
    log = spibb.Log.from_arrays(
        state=states, action=actions, reward=(actions == 0).astype(float),
        episode=np.arange(len(states)), **names,
    )  # fmt: skip
    baseline = spibb.TabularPolicy(np.full((n_states, n_actions), 1 / n_actions), *names.values())
    result = spibb.ApproxSoftSPIBB(epsilon=0.5).improve(log, baseline=baseline, gamma=0.5)
    changes = result_changes(spibb.Assessment.of(result))
    with own_settings():
        figure = change_figure(result.policy, baseline, changes, n_shown)
        return to_svg(figure), result


def test_it_shows_old_and_new_shares():
    svg, result = drawn(state_labels=("a", "b", "c"), action_labels=("go", "stop"))
    new = 100 * result.policy.probabilities[0, 0]
    for text in ("go", "stop", "a", "b", "c", f"50 → {new:.0f}"):
        assert f">{text}<" in svg
    assert "in %)<" in svg, "nothing is left out"


def test_it_keeps_to_what_changes_most_and_says_so():
    names = {"state_labels": [f"s{k}" for k in range(30)],
             "action_labels": [f"act-{k:02}" for k in range(40)]}  # fmt: skip
    svg, _ = drawn(30, 40, 5, **names)
    assert ">act-00<" in svg
    assert svg.count(">act-") == 8
    assert svg.count(">s") == 5
    assert "; 5 of 30 states; 8 of 40 actions<" in svg


@pytest.mark.parametrize(
    "name", ["$x$", "$\\undefined$", "\u4e2d\u6587", "two\nlines", "w" * 500, "\x07bell", "%d {x}"]
)
def test_it_takes_any_name(name):
    svg, _ = drawn(state_labels=(name, "b", "c"), action_labels=(name, "stop"))
    shown = "".join(mark if mark.isprintable() else " " for mark in name)
    assert (shown if len(shown) <= 32 else shown[:31] + "…") in svg
