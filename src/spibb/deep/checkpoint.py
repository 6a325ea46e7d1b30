"""The state of a population in one safetensors file: written atomically, resumed exactly."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.atomic_files import as_path, reason
from spibb.deep.network import read_arrays, write_arrays
from spibb.deep.population import PopulationState, TrainingBatch
from spibb.errors import DataError, OutputError, SettingsError

_FORMAT = "spibb-training-1"
_CURVES = ("steps", "loss", "max_q")


@dataclass(frozen=True, eq=False)
class Curves:
    """What was seen while training, at some steps.

    Attributes:
        steps: The steps, shape (K,).
        loss: Mean squared error of the minibatch, shape (R, K); NaN after a member's end.
        max_q: Mean over the minibatch of max_a Q(x, a), shape (R, K).
    """

    steps: NDArray[np.int64]
    loss: NDArray[np.float32]
    max_q: NDArray[np.float32]

    @classmethod
    def empty(cls, n_members: int, n_points: int = 0) -> Curves:
        """Return curves of points that are not there yet."""
        loss, max_q = np.full((2, n_members, n_points), np.nan, dtype=np.float32)
        return cls(np.empty(n_points, dtype=np.int64), loss, max_q)

    def extended(self, step: int, point: NDArray[np.float32]) -> Curves:
        """Return the curves with one more point, (loss, max_q) of shape (2, R)."""
        loss, max_q = np.concatenate([(self.loss, self.max_q), point[..., None]], axis=2)
        return Curves(np.append(self.steps, step), loss, max_q)


class Checkpoint:
    """Where a training keeps its state.

    Args:
        path: The file, in a folder that is made if need be.
        trainings: What is trained.
        engine: The full name of the engine.
        every: Steps between points of the curves.
    """

    def __init__(self, path: str | Path, trainings: TrainingBatch, engine: str, every: int) -> None:
        self.path, self._n_steps = as_path(path), trainings.n_steps
        # All that determines the results, as plain JSON values.
        self._about = trainings.to_config() | {"engine": engine, "record_every": every}
        try:
            self.path.absolute().parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as problem:
            raise OutputError(f"cannot write {self.path}: {reason(problem)}") from None

    def write(self, state: PopulationState, curves: Curves) -> None:
        """Replace the file."""
        identity = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode()).hexdigest()
        header = {"format": _FORMAT, "t": state.t, "identity": identity, "about": self._about}
        write_arrays(self.path, _arrays(state, curves), header)

    def read(self, start: PopulationState) -> tuple[PopulationState, Curves] | None:
        """Return what the file holds, or None where there is none.

        Args:
            start: The state before the first step, whose shapes it must have.
        """
        if not os.path.isfile(self.path):
            return None
        stored, header = read_arrays(self.path)
        if header.get("format") != _FORMAT:
            what, hint = f"{self.path} is no checkpoint of a training", "choose another file name"
            raise DataError(what, expected=f"format {_FORMAT!r}", hint=hint)
        about = header.get("about")
        for name, ours in self._about.items():
            if not isinstance(about, dict) or about.get(name) != ours:
                what = f"{self.path} belongs to another training (its {name} differ)"
                expected = "the same data sets, members, settings and engine"
                hint = "remove the file to start anew, or choose another"
                raise SettingsError(what, expected=expected, hint=hint)
        # Compiled loops take arrays that can be written to.
        arrays = {name: np.array(array) for name, array in stored.items()}
        n_points = arrays["curve_steps"].size if "curve_steps" in arrays else 0
        like = _arrays(start, Curves.empty(len(start.params), n_points))
        for name, part in like.items():
            found = arrays.get(name)
            if found is None or (found.shape, found.dtype) != (part.shape, part.dtype):
                raise self._damaged(f"{name} is not there in shape {part.shape} as {part.dtype}")
        step = header.get("t")
        if type(step) is not int or not 0 <= step <= self._n_steps:
            raise self._damaged(f"its step is {step!r}, of {self._n_steps}")
        state = replace(start, t=step, **{name: arrays[name] for name in start.arrays})
        return state, Curves(*(arrays[f"curve_{name}"] for name in _CURVES))

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path} is damaged: {what}", hint="remove the file to start anew")


def _arrays(state: PopulationState, curves: Curves) -> dict[str, NDArray[Any]]:
    """Return what the file holds."""
    return state.arrays | {f"curve_{name}": getattr(curves, name) for name in _CURVES}
