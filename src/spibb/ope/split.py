"""Episodes of a log, divided into those that are learnt from and those that are tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.ope.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Split:
    """Episodes of a log, divided at random into folds to learn from and others to test on.

    Attributes:
        episodes: The episodes of the log.
        folds: Numbers of the training episodes, fold by fold.
        test: Numbers of the held-out episodes.
    """

    episodes: Trajectories
    folds: tuple[NDArray[np.int64], ...]
    test: NDArray[np.int64]

    @property
    def train(self) -> NDArray[np.int64]:
        """Numbers of all training episodes."""
        return np.concatenate(self.folds)

    @property
    def training_sets(self) -> list[NDArray[np.int64]]:
        """What is learnt from: the training split without each fold in turn, then all of it."""
        return [*map(np.concatenate, all_but_one(self.folds)), self.train]

    @classmethod
    def of(
        cls, episodes: Trajectories, n_train: int, n_folds: int, rng: np.random.Generator
    ) -> Split:
        """Divide the episodes."""
        shuffled = rng.permutation(len(episodes))
        # In the order of the log, rows are read from memory in order.
        folds = tuple(np.sort(part) for part in np.array_split(shuffled[:n_train], n_folds))
        return cls(episodes, folds, np.sort(shuffled[n_train:]))


def all_but_one(folds: Sequence[Any]) -> list[list[Any]]:
    """Return all folds but each in turn."""
    return [[*folds[:k], *folds[k + 1 :]] for k in range(len(folds))]
