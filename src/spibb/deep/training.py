"""Train a population of Q-networks: seeds x rules x data sets, all advancing together.

One loop serves every engine (spibb.deep.engine), which takes the state of a population some steps
further; recording, checkpoints, progress and the end are dealt with here, once.

* ``cpu``: compiled, one member after the other, threads over members. A member's result does not
  depend on the population, on the threads or on where a training was interrupted, bit for bit.
* ``torch``: batched products with a leading run axis, on the CPU or a GPU, for networks of any
  shape. The same to rounding.
* ``fused``: one CUDA kernel for small networks; as independent of the population as ``cpu``.
* ``auto``: ``fused`` where there is a GPU and the network fits, else ``torch`` on the GPU with a
  note that says why, else ``cpu``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import import_torch
from spibb.compiled.random_numbers import RESTARTS, numbers
from spibb.deep.checkpoint import Checkpoint, Curves
from spibb.deep.dead import dead_members
from spibb.deep.engine import TrainingEngine
from spibb.deep.network import Network
from spibb.deep.policy import NetworkPolicy, PopulationPolicy
from spibb.deep.population import Member, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.train_cpu import CpuEngine, measure
from spibb.deep.train_fused import FusedEngine
from spibb.deep.training_data import TrainingData
from spibb.errors import DataError, SettingsError, checked_whole

Engine = Literal["auto", "cpu", "torch", "fused"]

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
        passes: Passes over the data that have been made.
        n_diverged: Members that have been stopped.
        n_dead: Members whose network has died.
        steps_per_second: Gradient steps a second, summed over the members.
        seconds_left: Time left at this speed.
        restart: 0, or the how-manieth time that members which died are trained again.
    """

    step: int
    n_steps: int
    passes: float
    n_diverged: int
    n_dead: int
    steps_per_second: float
    seconds_left: float
    restart: int = 0


Watch = Callable[[TrainingProgress], None] | None
File = str | Path | None


@dataclass(frozen=True, eq=False)
class Population:
    """Trained networks.

    Attributes:
        members: The members, in the order in which they were given; one that was trained again has
            the seed of its last training.
        sizes: Units of each layer.
        state: Parameters, target parameters and mean squares after the last step.
        n_steps: Steps that each member took, shape (R,).
        curves: Loss and Q while training.
        engine: The engine that trained them.
        data: The data sets.
        dead: Which members' Q depends on the state no longer (spibb.deep.dead), shape (R,).
        n_restarts: How often each member was trained again, shape (R,).
        note: Why ``auto`` did not take the fused kernel, where there is a GPU; else None.
    """

    members: list[Member]
    sizes: tuple[int, ...]
    state: PopulationState
    n_steps: NDArray[np.int64]
    curves: Curves
    engine: str
    data: Sequence[TrainingData]
    dead: NDArray[np.bool_]
    n_restarts: NDArray[np.int64]
    note: str | None = None

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
            rule, step = self.members[member].rule, self.state.diverged_at[member]
            hint = "leave it out, or train with a smaller learning_rate or gamma"
            raise DataError(f"member {member} ({rule.id}) diverged at step {step}", hint=hint)
        return Network.from_flat(self.state.params[member], self.sizes)

    def policy(self, member: int) -> NetworkPolicy:
        """Return one member's policy, with all that it was trained with."""
        network, rule = self.network(member), self.members[member].rule
        data = self.data[self.members[member].data]
        return NetworkPolicy(network, rule, data.baseline, data.pseudo_counts, data.scale)

    def policies(self, members: Iterable[int] | None = None) -> PopulationPolicy:
        """Return the policies of some members, all by default, as one that acts for them at once.

        Args:
            members: Which; a member that diverged has no policy.
        """
        chosen = range(len(self)) if members is None else members
        return PopulationPolicy([self.policy(member) for member in chosen])


def train_population(
    data: TrainingData | Sequence[TrainingData],
    members: Member | Sequence[Member],
    settings: TrainingSettings | None = None,
    *,
    engine: Engine = "auto",
    device: str | None = None,
    progress: Watch = None,
    checkpoint: File = None,
    record_every: int | None = None,
    restarts: int = 0,
) -> Population:
    """Train one network for each member.

    Args:
        data: The data sets, or one; they may differ in size, and so do then the steps.
        members: What to train: which data set, which rule, which seed; or one member.
        settings: How to train; None: the paper's numbers.
        engine: See the module's docstring.
        device: "cpu" or "cuda"; None: what the engine prefers.
        progress: Called every few seconds, and at the end. The fused kernel is then launched for a
            few seconds at a time, which leaves gaps where members of different lengths end.
        checkpoint: File that holds the state; where it exists, training resumes from it, exactly.
            It is written every minute, at the end, and when the training is interrupted.
        record_every: Steps between points of the curves; None: 200 points; 0: no curves.
        restarts: How often a member whose network has died is trained again, each time from
            another seed, which depends on its own seed only.
    """
    parts = list(data) if isinstance(data, Iterable) else [data]
    chosen = list(members) if isinstance(members, Iterable) else [members]
    trainings = TrainingBatch(parts, chosen, TrainingSettings() if settings is None else settings)
    if record_every is None:
        record_every = max(1, trainings.n_steps // _POINTS)
    record_every = checked_whole(record_every, "record_every", least=0)
    restarts = checked_whole(restarts, "restarts", least=0)
    if progress is not None and not callable(progress):
        raise SettingsError(f"progress is {progress!r}", expected="a function", hint="try print")
    choice = choose_engine(trainings, engine, device)
    population = _train(trainings, choice, record_every, progress, checkpoint)
    for restart in range(1, restarts + 1):
        places = np.flatnonzero(population.dead)
        if not len(places):
            break
        old = [chosen[k] for k in places]
        anew = [replace(one, seed=int(numbers(one.key, RESTARTS, restart))) for one in old]
        again = replace(trainings, members=anew)
        file = None if checkpoint is None else f"{checkpoint}.restart-{restart}"
        _put(_train(again, choice, record_every, progress, file, restart), population, places)
    return population


def _put(part: Population, population: Population, places: NDArray[np.int64]) -> None:
    """Put members that were trained again into their places."""
    for name, column in part.state.arrays.items():
        population.state.arrays[name][places] = column
    for name in ("loss", "max_q"):
        curve = getattr(population.curves, name)
        curve[places] = np.nan
        curve[places, : len(part.curves.steps)] = getattr(part.curves, name)
    for name in ("dead", "n_steps", "n_restarts"):
        getattr(population, name)[places] = getattr(part, name)
    for place, member in zip(places, part.members, strict=True):
        population.members[place] = member


def _train(
    trainings: TrainingBatch,
    choice: Choice,
    every: int,
    progress: Watch,
    file: File,
    restart: int = 0,
) -> Population:
    """Advance block by block. A block ends where a curve has a point or a member ends."""
    n_steps, last = trainings.n_steps, trainings.recipes.n_steps
    state = PopulationState.start(trainings.members, trainings.sizes)
    curves = Curves.empty(len(trainings.members))
    kept = None
    if file is not None:
        kept = Checkpoint(file, trainings, choice.name, every)
        state, curves = kept.read(state) or (state, curves)
        # What would keep it from being written is said now, not after hours of training.
        kept.write(state, curves)
    engine, first = choice.make(trainings), state.t
    began = reported = written = time.monotonic()
    # The first block also compiles; it says little about the speed.
    is_watched = progress is not None or kept is not None
    longest = n_steps if engine.is_whole and not is_watched else 64
    try:
        while state.t < n_steps:
            if every and state.t % every == 0 and state.t not in curves.steps:
                curves = curves.extended(state.t, measure(trainings, state))
            before = time.monotonic()
            block = _block(trainings, engine, state.t, every, longest)
            state = engine.advance(state, block)
            now = time.monotonic()
            longest = max(1, min(8 * longest, int(block * _REPORT_SECONDS / (now - before + 1e-6))))
            if kept is not None and now - written > _CHECKPOINT_SECONDS:
                kept.write(state, curves)
                written = now
            if progress is not None and (now - reported >= _REPORT_SECONDS or state.t == n_steps):
                progress(_progress(trainings, state, first, now - began + 1e-9, restart))
                reported = now
    finally:
        # State and curves are replaced only as a whole, so an interruption leaves the last block's.
        if kept is not None:
            kept.write(state, curves)
    # What goes wrong in the last step of all, no later one sees.
    is_lost = (state.diverged_at < 0) & ~np.isfinite(state.params).all(axis=1)
    state = replace(state, diverged_at=np.where(is_lost, last, state.diverged_at))
    ended = np.where(state.diverged_at >= 0, state.diverged_at, last)
    return Population(
        list(trainings.members), trainings.sizes, state, ended, curves, choice.name, trainings.data,
        dead_members(trainings, state), np.full_like(ended, restart), choice.note,
    )  # fmt: skip


def _block(
    trainings: TrainingBatch, engine: TrainingEngine, t: int, every: int, longest: int
) -> int:
    """Return how many steps may be taken at once."""
    # Whole target periods are what a captured graph replays.
    odd = (t + longest) % trainings.settings.target_period
    is_cut = longest > odd and t + longest < trainings.n_steps
    ends = [t + longest - odd * is_cut, trainings.n_steps]
    if every:
        ends.append(t + every - t % every)
    if engine.ends_blocks:
        last = trainings.recipes.n_steps
        ends.append(int(last[last > t].min()))
    return min(ends) - t


def _progress(
    trainings: TrainingBatch, state: PopulationState, first: int, seconds: float, restart: int
) -> TrainingProgress:
    """Return how far a training is that began at step ``first`` so many seconds ago."""
    last, n_steps = trainings.recipes.n_steps, trainings.n_steps
    before, done, whole = (int(np.minimum(last, t).sum()) for t in (first, state.t, n_steps))
    speed, passes = (done - before) / seconds, trainings.settings.n_passes * state.t / n_steps
    n_diverged = int((state.diverged_at >= 0).sum())
    n_dead = int(dead_members(trainings, state).sum())
    left = (whole - done) / max(speed, 1e-9)
    return TrainingProgress(state.t, n_steps, passes, n_diverged, n_dead, speed, left, restart)


class Choice(NamedTuple):
    """The engine of a training.

    Attributes:
        name: Its full name.
        make: Makes it for trainings.
        note: Why it is not the fused kernel, where ``auto`` might have taken that.
    """

    name: str
    make: Callable[[TrainingBatch], TrainingEngine]
    note: str | None = None


def choose_engine(trainings: TrainingBatch, engine: Engine, device: str | None) -> Choice:
    """Return the engine for trainings; what it cannot do is refused when it is made."""
    if engine not in (known := get_args(Engine)):
        raise SettingsError(f"engine is {engine!r}", expected=f"one of {', '.join(known)}")
    wants_gpu = isinstance(device, str) and device.split(":")[0] == "cuda"
    if device is not None and not wants_gpu and device != "cpu":
        raise SettingsError(f"device is {device!r}", expected="'cpu', 'cuda' or 'cuda:0'")
    if (engine, device) == ("fused", "cpu") or (engine == "cpu" and wants_gpu):
        hint = "use engine='torch', which runs on both, or drop device"
        raise SettingsError(f"engine {engine!r} does not run on {device!r}", hint=hint)
    place, note = device or ("cuda" if engine == "fused" or has_gpu() else "cpu"), None
    if engine == "auto" and place != "cpu":
        note = FusedEngine.misfit(trainings, place)
        engine = "fused" if note is None else "torch"
    if engine in ("auto", "cpu"):
        return Choice("cpu", CpuEngine)
    if engine == "fused":
        return Choice(f"fused on {place}", lambda given: FusedEngine(given, place))
    import_torch()
    from spibb.deep.train_torch import TorchEngine

    return Choice(f"torch on {place}", lambda given: TorchEngine(given, place), note)


def has_gpu() -> bool:
    """Say whether torch is there and finds a GPU."""
    return find_spec("torch") is not None and bool(import_torch().cuda.is_available())
