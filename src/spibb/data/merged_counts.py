"""Counts of two logs as one, where episodes go on from one to the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.ends import Ends, Settled, joined
from spibb.data.reward_moments import RewardMoments
from spibb.errors import DataError
from spibb.words import several

if TYPE_CHECKING:
    from spibb.data.counts import Counts


def check_ends(one: Counts, other: Counts) -> None:
    """Refuse to add episodes to counts that do not say which they hold and how these end."""
    if other.ends is not None and len(other.ends) and one.ends is None and one.n_initial.any():
        raise DataError(
            "the counts do not say how their episodes end, so it is not known whether those of the "
            "other log go on from there",
            expected="counts whose ends were kept",
            hint="count the earlier files again, by spibb.count_log(..., keep_ends=True)",
        )


def with_ends_joined(one: Counts, other: Counts, both: Counts) -> Counts:
    """Return the sum of two counts, with episodes that are in both gone on with.

    Args:
        one: Counts.
        other: Others.
        both: Their sum, as if no episode were in both.
    """
    if one.ends is None or other.ends is None:
        return both
    ends, earlier, later = joined(one.ends, other.ends)
    n_late = ends.n_late - one.ends.n_late - other.ends.n_late
    both = replace(both, ends=ends, n_gaps=both.n_gaps + n_late)
    if not len(earlier):
        return both
    if both.returns is not None:
        raise DataError(
            f"{several(len(earlier), 'episode goes', 'episodes go')} on in the other log, and the "
            "returns of the first part are counted already",
            expected="episodes that end in their log, where returns are counted",
            hint="count without returns, or the files of both together",
            episode=earlier.episode[0],
        )
    return _gone_on(both, earlier, later)


def _gone_on(both: Counts, earlier: Ends, later: Ends) -> Counts:
    """Count last rows that are followed after all again, as such."""
    before, after = earlier.settled(), earlier.settled(later)
    pair = earlier.state * both.n_actions + earlier.action
    shape, reward = both.n_sas.shape, earlier.reward

    def change(values: NDArray[Any], of: Settled, chosen: NDArray[np.bool_]) -> sp.csr_array:
        chosen = chosen & (of.successor >= 0)
        places = pair[chosen], of.successor[chosen]
        return sp.csr_array(sp.coo_array((values[chosen], places), shape=shape))

    def moved(table: sp.csr_array, values: NDArray[Any], *, ends_only: bool) -> sp.csr_array:
        chosen = [of.terminated | (not ends_only) for of in (before, after)]
        found = table - change(values, before, chosen[0]) + change(values, after, chosen[1])
        found = sp.csr_array(found)
        found.eliminate_zeros()
        return found

    ones, gained = np.ones(len(pair), np.int64), after.kept.astype(np.int64) - before.kept
    n_sa, n_initial = both.n_sa.copy(), both.n_initial.copy()
    np.add.at(n_sa.reshape(-1), pair, gained)
    np.subtract.at(n_initial, later.first_state, 1)
    reward_sum = both.reward_sum.copy()
    spread = None if both.paid is None else both.paid.spread.copy()
    _change_sums(both, pair, reward, gained, reward_sum, spread)
    paid = None
    if both.paid is not None and spread is not None:
        by_successor = both.paid.by_successor
        same = before.successor == after.successor  # taken out and put back, they would not cancel
        out, back = (change(reward, of, ~same) for of in (before, after))
        paid = RewardMoments(sp.csr_array(by_successor - out + back), spread)
    return replace(
        both,
        n_sa=n_sa,
        n_sas=moved(both.n_sas, ones, ends_only=False),
        n_end=moved(both.n_end, ones, ends_only=True),
        reward_sum=reward_sum,
        n_initial=n_initial,
        n_dropped=both.n_dropped - int(gained.sum()),
        n_gaps=both.n_gaps + int(np.count_nonzero(after.is_gap)),
        paid=paid,
    )


def _change_sums(
    both: Counts, pair: NDArray[np.int64], reward: NDArray[np.float64], gained: NDArray[np.int64],
    reward_sum: NDArray[np.float64], spread: NDArray[np.float64] | None,
) -> None:  # fmt: skip
    """Add rewards of rows that count now, and take out those of rows that do not any more."""
    n, total = both.n_sa.copy().reshape(-1), reward_sum.reshape(-1)
    for row in np.flatnonzero(gained):
        k, sign = pair[row], gained[row]
        # Of n rewards with and n - 1 without it, spreads differ by this (Welford).
        n_with = max(n[k], n[k] + sign)
        rest = total[k] if sign > 0 else total[k] - reward[row]
        off = reward[row] - rest / max(n_with - 1, 1)
        if spread is not None:
            spread.reshape(-1)[k] += sign * off * off * (n_with - 1) / n_with
        n[k] += sign
        total[k] += sign * reward[row]
