"""What rows of the study mean: codes of verdicts, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.assessment.verdict import Decision
from spibb.errors import DataError
from spibb.studies.representations.plan import RepresentationsPlan
from spibb.studies.results.logs import LogResults

# Codes of verdicts, which files hold: never change one. The first stands for a search that took
# none of its candidates.
KEPT = 0
_CODES = {
    Decision.DEPLOY: 1,
    Decision.MONITOR: 2,
    Decision.PILOT: 3,
    Decision.WAIT: 4,
    Decision.KEEP: 5,
}
_DEPLOYS = [code for one, code in _CODES.items() if one.startswith("Deploy")]
# True gains of fewer standard errors below zero may be none.
LOSS_ERRORS = 2.0


def code_of(decision: Decision) -> int:
    """Return the code of a decision."""
    return _CODES[decision]


def is_deploy(codes: ArrayLike) -> NDArray[np.bool_]:
    """Tell which verdicts begin with Deploy."""
    return np.isin(codes, _DEPLOYS)


def score_of(codes: ArrayLike, gain: ArrayLike) -> NDArray[np.float32]:
    """Return what a rule gains in truth: the true gain where it deploys, and 0 elsewhere."""
    return np.where(is_deploy(codes), gain, 0.0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class RepresentationsResults(LogResults[RepresentationsPlan]):
    """What the study has found."""

    @property
    def deploys(self) -> NDArray[np.bool_]:
        """Which verdicts begin with Deploy."""
        return is_deploy(self.columns["verdict"])

    @property
    def is_loss(self) -> NDArray[np.bool_]:
        """Which policies are worse than the behaviour, beyond the error of the simulation."""
        return self.columns["gain"] < -LOSS_ERRORS * self.columns["gain_error"]

    @classmethod
    def check(cls, columns: dict[str, NDArray[Any]]) -> None:
        """Refuse verdicts that contradict the scores."""
        gained = score_of(columns["verdict"], columns["gain"])
        if not np.array_equal(gained, columns["score"]):
            raise DataError(
                "verdicts and scores contradict each other",
                expected="the true gain where the verdict is Deploy, and 0 elsewhere",
                hint="run the study again in another folder",
            )
