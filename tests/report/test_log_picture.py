"""The picture of a log on a page."""

from xml.etree import ElementTree

import numpy as np
import pytest

import spibb
from spibb.report.log_picture import log_picture


def inspected(n_states=3, lengths=(3, 4, 9), baseline=True, **more):
    rng, n = np.random.default_rng(1), sum(lengths)
    log = spibb.Log.from_arrays(
        state=rng.integers(0, n_states, n), action=rng.integers(0, 2, n),
        reward=rng.normal(size=n), episode=np.repeat(np.arange(len(lengths)), lengths),
        n_states=n_states, n_actions=2, **more,
    )  # fmt: skip
    policy = spibb.TabularPolicy(np.full((n_states, 2), 0.5)) if baseline else None
    return spibb.inspect(log, baseline=policy)


def parts(found, kind, name):
    drawn = ElementTree.fromstring(log_picture(found))
    return [one for one in drawn.iter(kind) if one.get("class") == name]


def test_bars_are_as_high_as_what_they_show():
    found = inspected(lengths=(3,) * 20 + (4,) * 10)
    heights = [float(one.get("height")) for one in parts(found, "rect", "rows")]
    # Two in the key and the panel of coverage, of which one is the key's; then both lengths.
    assert heights[-2] == pytest.approx(2 * heights[-1], abs=0.1)
    pairs = np.array([one["pairs"] for one in found.coverage], dtype=float)
    shown = np.array(heights[: len(pairs)])
    assert np.allclose(shown * pairs.max(), pairs * shown.max(), atol=0.1 * pairs.max())


def test_each_state_that_was_met_is_a_dot():
    found = inspected(n_states=40, lengths=(5,) * 30)
    n_met = int((found.n_sa.sum(axis=1) > 0).sum())
    assert len(parts(found, "circle", "base")) == n_met


def test_what_is_not_known_is_not_drawn():
    assert not parts(inspected(baseline=False), "circle", "base")
    words = log_picture(inspected(baseline=False))
    assert "rows of an episode" in words
    assert "baseline off by" not in words


@pytest.mark.parametrize("lengths", [(1,), (7,) * 3, (1, 2, 100_000), tuple(range(1, 60))])
def test_everything_lies_inside(lengths):
    drawn = ElementTree.fromstring(log_picture(inspected(lengths=lengths)))
    width, height = map(float, drawn.get("viewBox").split()[2:])
    for panel in drawn:
        shift = float(panel.get("transform").split("(")[1].split()[0])
        for one in panel:
            for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                if one.get(name) is not None:
                    moved = float(one.get(name)) + (shift if "x" in name else 0.0)
                    assert 0.0 <= moved <= limit
