"""SysAdmin (Guestrin et al. 2003, as in Castellini et al. 2023): machines that fail with others.

n machines in a ring, each running or not: 2^n states, bit m of which says whether machine m runs.
An action reboots one machine, or, the last one, none. A running machine fails with probability
0.05, and 0.3 more for each of its two neighbours that is down; one that is down stays down; the one
that is rebooted runs in the next step. A step pays 1 for each machine that runs, less 1 for a
reboot. It begins with all running, and never ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.envs.mixing import mixed
from spibb.errors import SettingsError, checked_whole
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_FAILS, _SPREADS = 0.05, 0.3
# Dense tables of more machines do not fit.
_MOST = 10


@dataclass(frozen=True)
class SysAdmin:
    """The machines.

    Attributes:
        n_machines: How many.

    Example:
        >>> mdp = SysAdmin().to_mdp(gamma=0.85)
        >>> mdp.n_states, mdp.n_actions, mdp.reward[-1].max(), mdp.reward[0].min()
        (128, 8, np.float64(7.0), np.float64(-1.0))
    """

    n_machines: int = 7

    def __post_init__(self) -> None:
        if checked_whole(self.n_machines, "n_machines", least=3) > _MOST:
            raise SettingsError(
                f"n_machines is {self.n_machines}", expected=f"{_MOST} at most: a table holds all"
            )

    def to_mdp(self, gamma: float = 0.85) -> TabularMDP:
        """Return the exact process."""
        runs = self._runs()
        n_states, n = runs.shape
        n_down = (~np.roll(runs, 1, axis=1)).astype(int) + ~np.roll(runs, -1, axis=1)
        goes_on = np.where(runs, 1.0 - np.minimum(1.0, _FAILS + _SPREADS * n_down), 0.0)
        transition = np.empty((n_states, n + 1, n_states))
        for a in range(n + 1):
            chance = goes_on.copy()
            if a < n:
                chance[:, a] = 1.0
            # Machine by machine: whether it runs next does not depend on the others' luck.
            each = np.where(runs[None], chance[:, None], 1.0 - chance[:, None])
            transition[:, a] = each.prod(axis=2)
        reward = runs.sum(axis=1)[:, None] - (np.arange(n + 1) < n).astype(np.float64)
        return TabularMDP(transition, reward, gamma, np.eye(n_states)[-1])

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a rule, mixed with a share epsilon of the uniform policy.

        The first machine that is down is rebooted, none if all run.
        """
        down = ~self._runs()
        chosen = np.where(down.any(axis=1), down.argmax(axis=1), self.n_machines)
        return mixed(chosen, self.n_machines + 1, epsilon)

    def _runs(self) -> NDArray[np.bool_]:
        """Return which machines run in each state, shape (2^n, n)."""
        states = np.arange(2**self.n_machines)
        return np.asarray((states[:, None] >> np.arange(self.n_machines)) % 2 == 1)
