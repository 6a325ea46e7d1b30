"""Train a population of Q-networks: seeds x rules x data sets, all advancing together.

One loop serves every engine. An engine is a function that takes the state of a population some
steps further (`Advance`); recording, checkpoints, progress and the end are dealt with here, once.

* ``cpu``: compiled, one member after the other, threads over members. A member's result does not
  depend on the population, on the threads or on where a training was interrupted, bit for bit.
* ``torch``: batched products with a leading run axis, on the CPU or a GPU, for networks of any
  shape. The same to rounding.
* ``fused``: one CUDA kernel for small networks; as independent of the population as ``cpu``.
* ``auto``: ``fused`` where there is a GPU and the network fits, else ``torch`` on the GPU, else
  ``cpu``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import checked_device, import_torch
from spibb.deep import train_cpu, train_fused
from spibb.deep.checkpoint import Checkpoint, Curves
from spibb.deep.network import Network
from spibb.deep.population import Member, PopulationState, Trainings, TrainingSettings
from spibb.deep.training_data import TrainingData
from spibb.errors import DataError, MissingDependencyError, SettingsError, checked_whole

__all__ = [
    "Curves",
    "Engine",
    "Member",
    "Population",
    "PopulationState",
    "TrainingData",
    "TrainingProgress",
    "TrainingSettings",
    "train_population",
]

Engine = Literal["auto", "cpu", "torch", "fused"]
Advance = Callable[[Trainings, PopulationState, int], PopulationState]

# Points of a curve where nobody asks for another number.
_POINTS = 200
# Seconds between checkpoints, and between reports of progress.
_CHECKPOINT_SECONDS = 60.0
_REPORT_SECONDS = 5.0


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is.

    Attributes:
        step: Steps done.
        n_steps: Steps of the longest member.
        n_diverged: Members that have been stopped.
        seconds: Time since the start, or since the resumption.
        steps_per_second: Gradient steps a second, summed over the members.
        seconds_left: Time left at this speed.
    """

    step: int
    n_steps: int
    n_diverged: int
    seconds: float
    steps_per_second: float
    seconds_left: float


@dataclass(frozen=True, eq=False)
class Population:
    """Trained networks.

    Attributes:
        members: The members, in the order in which they were given.
        sizes: Units of each layer.
        state: Parameters, target parameters and mean squares after the last step.
        n_steps: Steps that each member took, shape (R,).
        curves: Loss and Q while training.
        engine: The engine that trained them.
    """

    members: Sequence[Member]
    sizes: tuple[int, ...]
    state: PopulationState
    n_steps: NDArray[np.int64]
    curves: Curves
    engine: str

    def __post_init__(self) -> None:
        # What goes wrong in the last step of all, no later one sees.
        is_lost = self.state.diverged_at < 0
        is_lost &= ~np.isfinite(self.state.params).all(axis=1)
        diverged_at = np.where(is_lost, self.n_steps, self.state.diverged_at)
        object.__setattr__(self, "state", replace(self.state, diverged_at=diverged_at))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def params(self) -> NDArray[np.float32]:
        """Parameters, shape (R, P); a layout for spibb.deep.network.Network.from_flat."""
        return self.state.params

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Which members were stopped because Q or the loss left all bounds, shape (R,)."""
        return self.state.diverged_at >= 0

    def network(self, member: int) -> Network:
        """Return one member's network; a member that diverged has none."""
        member = checked_whole(member, "member", least=0)
        if member >= len(self):
            raise SettingsError(f"member {member} of {len(self)}", expected=f"0 to {len(self) - 1}")
        if self.diverged[member]:
            raise DataError(
                f"member {member} ({self.members[member].rule.id}) diverged at step "
                f"{self.state.diverged_at[member]}",
                hint="leave it out, or train with a smaller learning_rate or gamma",
            )
        return Network.from_flat(self.state.params[member], self.sizes)

    @cached_property
    def networks(self) -> tuple[Network | None, ...]:
        """The networks; None where a member diverged."""
        return tuple(
            None if self.diverged[k] else self.network(k) for k in range(len(self.members))
        )


def train_population(
    data: TrainingData | Sequence[TrainingData],
    members: Member | Sequence[Member],
    settings: TrainingSettings | None = None,
    *,
    engine: Engine = "auto",
    device: str | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    checkpoint: str | Path | None = None,
    record_every: int | None = None,
) -> Population:
    """Train one network for each member.

    Args:
        data: The data sets, or one; they may differ in size, and so do then the steps.
        members: What to train: which data set, which rule, which seed; or one member.
        settings: How to train; None: the paper's numbers.
        engine: See the module's docstring.
        device: "cpu" or "cuda"; None: what the engine prefers.
        progress: Called every few seconds.
        checkpoint: File that holds the state; where it exists, training resumes from it, exactly.
            It is written every minute, at the end, and when the training is interrupted.
        record_every: Steps between points of the curves; None: 200 points.
    """
    parts = list(data) if isinstance(data, Iterable) else [data]
    chosen = list(members) if isinstance(members, Iterable) else [members]
    trainings = Trainings.of(parts, chosen, TrainingSettings() if settings is None else settings)
    if record_every is None:
        record_every = max(1, trainings.n_steps // _POINTS)
    if not isinstance(record_every, int | np.integer) or record_every < 1:
        raise SettingsError(f"record_every is {record_every!r}", expected="a whole number > 0")
    record_every = int(record_every)
    if progress is not None and not callable(progress):
        raise SettingsError(f"progress is {progress!r}", expected="a function", hint="try print")
    name, advance = choose_engine(trainings, engine, device)
    state = PopulationState.start(trainings.members, trainings.sizes)
    curves = Curves.empty(len(trainings.members))
    kept = None
    if checkpoint is not None:
        kept = Checkpoint.of(checkpoint, trainings, name, record_every)
        state, curves = kept.read(state) or (state, curves)
    state, curves = _run(trainings, state, curves, advance, record_every, progress, kept)
    ended = np.where(state.diverged_at >= 0, state.diverged_at, trainings.recipes.n_steps)
    return Population(trainings.members, trainings.sizes, state, ended, curves, name)


def _run(
    trainings: Trainings,
    state: PopulationState,
    curves: Curves,
    advance: Advance,
    record_every: int,
    progress: Callable[[TrainingProgress], None] | None,
    kept: Checkpoint | None,
) -> tuple[PopulationState, Curves]:
    """Advance block by block. A block ends where a curve has a point or a member ends."""
    clock = _Clock(trainings, state.t, progress)
    written = time.monotonic()
    # The first block also compiles; it says little about the speed.
    longest = 64
    try:
        while state.t < trainings.n_steps:
            if state.t % record_every == 0 and (
                len(curves.steps) == 0 or curves.steps[-1] < state.t
            ):
                point, is_good = train_cpu.measure(trainings, state)
                curves = curves.extended(state.t, point)
                state = state.stopped(~is_good)
            began = time.monotonic()
            n_steps = _block(trainings, state.t, record_every, longest)
            state = advance(trainings, state, n_steps)
            took = max(time.monotonic() - began, 1e-6)
            longest = max(1, min(8 * longest, int(n_steps * _REPORT_SECONDS / took)))
            if kept is not None and time.monotonic() - written > _CHECKPOINT_SECONDS:
                kept.write(state, curves)
                written = time.monotonic()
            clock.report(state)
    finally:
        # State and curves are replaced only as a whole, so an interruption leaves the last block's.
        if kept is not None:
            kept.write(state, curves)
    return state, curves


def _block(trainings: Trainings, t: int, record_every: int, longest: int) -> int:
    """Return how many steps may be taken at once."""
    to_record = record_every - t % record_every
    ends = trainings.recipes.n_steps
    to_end = int(ends[ends > t].min()) - t
    # Whole target periods are what a captured graph replays.
    odd = (t + longest) % trainings.settings.target_period
    return min(to_record, to_end, longest - odd if longest > odd else longest)


class _Clock:
    """Calls ``progress``, not too often, and at the end."""

    def __init__(
        self, trainings: Trainings, t: int, progress: Callable[[TrainingProgress], None] | None
    ) -> None:
        self._trainings = trainings
        self._progress = progress
        self._began = self._last = time.monotonic()
        self._from = self._done(t)

    def _done(self, t: int) -> int:
        return int(np.minimum(self._trainings.recipes.n_steps, t).sum())

    def report(self, state: PopulationState) -> None:
        now = time.monotonic()
        n_steps = self._trainings.n_steps
        if self._progress is None or (now - self._last < _REPORT_SECONDS and state.t < n_steps):
            return
        self._last = now
        seconds = max(now - self._began, 1e-9)
        speed = (self._done(state.t) - self._from) / seconds
        left = (self._done(n_steps) - self._done(state.t)) / max(speed, 1e-9)
        n_diverged = int((state.diverged_at >= 0).sum())
        self._progress(TrainingProgress(state.t, n_steps, n_diverged, seconds, speed, left))


def choose_engine(trainings: Trainings, engine: Engine, device: str | None) -> tuple[str, Advance]:
    """Return an engine's full name and its function."""
    if engine not in get_args(Engine):
        raise SettingsError(
            f"engine is {engine!r}", expected=f"one of {', '.join(get_args(Engine))}"
        )
    wants_gpu = isinstance(device, str) and device.split(":")[0] == "cuda"
    if device is not None and not wants_gpu and device != "cpu":
        raise SettingsError(f"device is {device!r}", expected="'cpu', 'cuda' or 'cuda:0'")
    if (engine, device) == ("fused", "cpu") or (engine == "cpu" and wants_gpu):
        raise SettingsError(
            f"engine {engine!r} does not run on {device!r}",
            hint="use engine='torch', which runs on both, or drop device",
        )
    if engine == "auto":
        if wants_gpu:
            checked_device(device)
        engine = "cpu"
        if device != "cpu" and _has_gpu():
            engine = "fused" if _fits(trainings, device or "cuda") else "torch"
    if engine == "cpu":
        train_cpu.ENGINE.check_carried(trainings.operators)
        return "cpu", train_cpu.advance
    if engine == "fused":
        place = device or "cuda"
        return f"fused on {place}", train_fused.FusedEngine(trainings, place).advance
    place = device or ("cuda" if _has_gpu() else "cpu")
    import_torch()
    from spibb.deep.train_torch import TorchEngine

    return f"torch on {place}", TorchEngine(trainings, place).advance


def _has_gpu() -> bool:
    try:
        torch = import_torch()
    except MissingDependencyError:
        return False
    return bool(torch.cuda.is_available())


def _fits(trainings: Trainings, device: str) -> bool:
    """Say whether the fused kernel can train these networks, by these rules, on this GPU."""
    if not trainings.operators <= train_fused.ENGINE.operators:
        return False
    if not train_fused.fits(trainings.sizes, trainings.settings, trainings.n_steps):
        return False
    if find_spec("cuda") is None:
        return False
    limits = import_torch().cuda.get_device_properties(device)
    most = getattr(limits, "shared_memory_per_block_optin", 0)
    return bool(limits.major >= 8 and most >= train_fused.shared_bytes(trainings.sizes))
