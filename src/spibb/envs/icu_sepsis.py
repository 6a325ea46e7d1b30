"""ICU-Sepsis (Choudhary et al. 2024): treating sepsis, made of records of intensive care.

The files of the package ``icu-sepsis`` 2.0.1 are read, none of its code is run, and what it asks
for need not be there: ``pip install --no-deps icu-sepsis``. 716 states, of which the last three are
ends; 25 actions, five levels of two drugs each; 1 for survival, no discount.

Its list of admissible actions has, for each state, those that the records hold often enough; any
other does in the model what those do on average. The clinicians' policy that it ships takes many
more: 7,014 of its 9,252 pairs are not admissible. Under `spibb.Limits(allowed=...)` they may keep
what the clinicians gave them, and get no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import MissingDependencyError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_N_ENDS = 3


@dataclass(frozen=True)
class ICUSepsis:
    """The process, its clinicians, and what is admissible."""

    def to_mdp(self, gamma: float = 1.0) -> TabularMDP:
        """Return the exact process."""
        facts = self._facts()
        first = facts["d_0"]
        terminal = np.arange(len(first)) >= len(first) - _N_ENDS
        paid = facts["r_mat"].max(axis=(0, 1))
        return TabularMDP(facts["tx_mat"], None, gamma, first, terminal, entry_reward=paid)

    def baseline(self) -> TabularPolicy:
        """Return the clinicians' policy; uniform where everything is over."""
        table = self._facts()["expert_policy"]
        acted = table.sum(axis=1, keepdims=True)
        rows = np.where(acted > 0, table / np.maximum(acted, 1e-9), 1.0 / table.shape[1])
        return TabularPolicy(rows)

    def allowed(self) -> NDArray[np.bool_]:
        """Return which actions are admissible, shape (716, 25); all of them where all is over."""
        sizes, *rows = (self._folder() / "admissible_actions.txt").read_text("utf-8").splitlines()
        found = np.zeros((len(rows), 25), dtype=np.bool_)
        for x, (row, size) in enumerate(zip(rows, sizes.split(), strict=True)):
            actions = [int(action) for action in row.split()]
            if len(actions) != int(size):
                raise ValueError(f"state {x} has {len(actions)} actions, and {size} are announced")
            found[x, actions] = True
        return found

    def _facts(self) -> Any:
        return np.load(self._folder() / "dynamics.npz")

    def _folder(self) -> Path:
        package = find_spec("icu_sepsis")
        if package is None or package.origin is None:
            raise MissingDependencyError(
                "ICU-Sepsis needs the files of the package icu-sepsis",
                hint="pip install --no-deps icu-sepsis",
            )
        return Path(package.origin).parent / "envs" / "assets"
