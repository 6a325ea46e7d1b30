"""Whether less or more is better, where a log and what is brought to it must agree."""

from __future__ import annotations

from typing import NoReturn

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.errors import PolicyError, SettingsError
from spibb.mdp.policy import TabularPolicy


def refuse_turning(log: Log | Counts) -> NoReturn:
    """Refuse to minimize what was read or counted as rewards."""
    is_log = isinstance(log, Log)
    raise SettingsError(
        f"minimize is given beside {'a Log that was read' if is_log else 'counts made'} without it",
        expected="minimize where the costs are read",
        hint="say read_log(..., minimize=True)"
        if is_log
        else "count the log again, by 'spibb count --minimize' or count_log(..., minimize=True)",
    )


def check_direction(policy: TabularPolicy, *, minimize: bool) -> None:
    """Refuse to judge a policy by rewards that was made to minimize costs, and the reverse.

    Args:
        policy: The policy; nothing is refused where it is not known what it was made for.
        minimize: Whether the log was read with minimize.
    """
    if policy.minimize is None or policy.minimize == minimize:
        return
    made, read = ("with", "without") if policy.minimize else ("without", "with")
    raise PolicyError(
        f"the policy was made {made} --minimize, and this log is read {read} it",
        expected="the same for both: else what the policy lowers would be judged as what it raises",
        hint=("add --minimize (minimize=True)" if policy.minimize else "leave out --minimize")
        + "; to judge it by another quantity, give the policy as CSV (policy.csv), which does not "
        "say what it was made for",
    )
