"""The state of a population in one safetensors file: written atomically, resumed exactly."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.deep.network import read_arrays, write_arrays
from spibb.deep.population import PopulationState, Trainings
from spibb.errors import DataError, OutputError, SettingsError

_FORMAT = "spibb-training-1"


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
    def empty(cls, n_members: int) -> Curves:
        """Return curves without points."""
        nothing = np.empty((n_members, 0), dtype=np.float32)
        return cls(np.empty(0, dtype=np.int64), nothing, nothing)

    def extended(self, step: int, point: NDArray[np.float32]) -> Curves:
        """Return the curves with one more point, (loss, max_q) of shape (2, R)."""
        return Curves(
            np.append(self.steps, step),
            np.concatenate([self.loss, point[0][:, None]], axis=1),
            np.concatenate([self.max_q, point[1][:, None]], axis=1),
        )


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a training keeps its state.

    Attributes:
        path: The file.
        identity: Digest of all that determines the results, the engine included.
        about: What goes into the file for people to read.
    """

    path: Path
    identity: str
    about: dict[str, Any]

    @classmethod
    def of(
        cls, path: str | Path, trainings: Trainings, engine: str, record_every: int
    ) -> Checkpoint:
        """Return the checkpoint of a training, in a folder that can be written to."""
        about = trainings.to_config() | {"engine": engine, "record_every": record_every}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        folder = Path(path).absolute().parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise OutputError(f"cannot make {folder}: {problem.strerror}") from None
        if not os.access(folder, os.W_OK):
            # Better now than after hours of training.
            raise OutputError(f"cannot write into {folder}", hint="choose another folder")
        return cls(Path(path), digest, about)

    def write(self, state: PopulationState, curves: Curves) -> None:
        """Replace the file."""
        arrays: dict[str, NDArray[Any]] = {
            "params": state.params,
            "target": state.target,
            "v": state.v,
            "diverged_at": state.diverged_at,
            "curve_steps": curves.steps,
            "curve_loss": curves.loss,
            "curve_max_q": curves.max_q,
        }
        header = {"format": _FORMAT, "t": state.t, "identity": self.identity, "about": self.about}
        write_arrays(self.path, arrays, header)

    def read(self, start: PopulationState) -> tuple[PopulationState, Curves] | None:
        """Return what the file holds, or None where there is none.

        Args:
            start: The state before the first step, whose shapes it must have.
        """
        if not self.path.exists():
            return None
        stored, header = read_arrays(self.path)
        if header.get("format") != _FORMAT:
            raise DataError(
                f"{self.path} is no checkpoint of a training",
                expected=f"format {_FORMAT!r}",
                hint="choose another file name",
            )
        if header.get("identity") != self.identity:
            raise SettingsError(
                f"{self.path} belongs to another training "
                f"({self._difference(header.get('about') or {})})",
                expected="the same data sets, members, settings and engine",
                hint="remove the file to start anew, or choose another",
            )
        # Compiled loops take arrays that can be written to.
        arrays = {name: np.array(array) for name, array in stored.items()}
        state_names = ("params", "target", "v", "diverged_at")
        n_points = arrays["curve_steps"].size if "curve_steps" in arrays else 0
        shapes = {name: getattr(start, name).shape for name in state_names}
        shapes |= {"curve_steps": (n_points,)}
        shapes |= {name: (len(start.params), n_points) for name in ("curve_loss", "curve_max_q")}
        for name, shape in shapes.items():
            if name not in arrays or arrays[name].shape != shape:
                raise self._damaged(f"{name} is not there in shape {shape}")
        if not isinstance(header.get("t"), int):
            raise self._damaged(f"its step is {header.get('t')!r}")
        params, target, v, diverged_at = (arrays[name] for name in state_names)
        curves = Curves(arrays["curve_steps"], arrays["curve_loss"], arrays["curve_max_q"])
        return PopulationState(params, target, v, header["t"], diverged_at), curves

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path} is damaged: {what}", hint="remove the file to start anew")

    def _difference(self, about: dict[str, Any]) -> str:
        names = [name for name in self.about if about.get(name) != self.about[name]]
        return f"its {names[0]} differ" if names else "its contents differ"
