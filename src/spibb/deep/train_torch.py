"""Train a population with torch: every tensor has a leading run axis, on the CPU or a GPU.

The general GPU path, for networks of any shape, and the independent check of the compiled engine:
the same arithmetic written as batched products. Gradients are written out, which is short for a
dense network and lets a whole target period be captured as one CUDA graph: ten steps then cost one
launch. The improvement step is the row function of the tabular algorithms, on a GPU too (extra
``gpu``).

Members are ordered by operator, so that each step sees one contiguous block of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spibb.compiled.arrays import checked_device
from spibb.compiled.random_numbers import signed, torch_minibatch
from spibb.deep.engine import TrainingEngine, carrying
from spibb.deep.forward import run_tensors, tensor_layers
from spibb.deep.population import PopulationState, TrainingBatch
from spibb.deep.targets import errors_for
from spibb.deep.training_data import Records
from spibb.operators.lift import apply_rows
from spibb.operators.rows import Operator


class TorchEngine(TrainingEngine):
    """Trains a population on one device: "cpu", "cuda" or "cuda:0"."""

    carries = carrying("torch")
    ends_blocks = True

    def __init__(self, trainings: TrainingBatch, device: str) -> None:
        super().__init__(trainings, device)
        self._device, self._settings = checked_device(device), trainings.settings
        self._records = Records._make(
            torch.as_tensor(column, device=self._device) for column in trainings.records
        )
        self._chosen = np.empty(0, np.int64)

    @torch.no_grad()
    def _train(self, state: PopulationState, t: int, n_steps: int) -> None:
        recipes = self._trainings.recipes
        alive = np.flatnonzero((state.diverged_at < 0) & (recipes.n_steps > t))
        if not len(alive):
            return
        chosen = alive[np.lexsort((recipes.is_double[alive], recipes.operator[alive]))]
        if not np.array_equal(self._chosen, chosen):
            self._prepare(chosen, state)
        parts = list(zip(self._parts, state.arrays.values(), strict=True))
        for tensor, array in parts:
            tensor.copy_(torch.from_numpy(array[chosen]))
        self._t.fill_(t)
        # Of several GPUs, graphs are captured on the current one.
        with torch.cuda.device_of(self._t):
            self._run(t, t + n_steps)
        for tensor, array in parts:
            array[chosen] = tensor.cpu().numpy()

    def _prepare(self, chosen: NDArray[np.int64], state: PopulationState) -> None:
        """Make tensors of the members that train now, which stay where they are for a graph."""
        self._chosen, device = chosen, self._device
        recipes, sizes = self._trainings.recipes[chosen], self._trainings.sizes
        kinds = recipes[["operator", "is_double"]].tolist()
        # Members of one operator are neighbours.
        self._groups = [
            (Operator(kind[0]), kind[1], slice(first, first + kinds.count(kind)))
            for kind in dict.fromkeys(kinds)
            for first in [kinds.index(kind)]
        ]
        numbers = ("n_rows", "first_row", "kappa", "n_wedge", "epsilon")
        # Shape (R, 1), for minibatches.
        self._seed, self._n_rows, self._first_row, self._kappa, self._n_wedge, self._epsilon = (
            torch.tensor(column[:, None].copy(), device=device)
            for column in (signed(recipes.seed), *(recipes[name] for name in numbers))
        )
        self._period = self._n_rows.clamp(min=self._settings.annealing_samples)
        self._places = torch.arange(self._settings.batch_size, device=device)
        # Each in memory of its own, which begins where a GPU reads fast.
        self._parts = [torch.tensor(part[chosen], device=device) for part in state.arrays.values()]
        self._params, self._target, self._v, self._diverged_at = self._parts
        self._gradient = torch.zeros_like(self._params)
        self._layers, self._frozen_layers, self._gradient_layers = (
            tensor_layers(flat, sizes) for flat in (self._params, self._target, self._gradient)
        )
        self._t = torch.zeros((), dtype=torch.int64, device=device)
        self._graph: Any = None

    def _run(self, t: int, last: int) -> None:
        """Take the steps from ``t`` to ``last``."""
        period = self._settings.target_period
        while t < last:
            if self._device.type == "cuda" and t % period == 0 and last - t >= period:
                self._graph = self._graph or self._captured()
                self._graph.replay()
                t += period
            else:
                self._step(is_first=t % period == 0)
                t += 1

    def _captured(self) -> Any:
        """Return one target period as a graph; what the warm-up changes is put back."""
        kept = (*self._parts, self._t)
        copies = [tensor.clone() for tensor in kept]
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step(is_first=True)
        torch.cuda.current_stream(self._device).wait_stream(side)
        for tensor, copy in zip(kept, copies, strict=True):
            tensor.copy_(copy)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for k in range(self._settings.target_period):
                self._step(is_first=k == 0)
        return graph

    def _step(self, *, is_first: bool) -> None:
        """Take one step, as spibb.deep.train_cpu does; ``is_first`` of a target period."""
        if is_first:
            self._target.copy_(self._params)
        settings, records = self._settings, self._records
        batch_size = settings.batch_size
        drawn = torch_minibatch(self._seed, self._t * batch_size + self._places, self._n_rows)
        rows = drawn + self._first_row
        states = torch.cat([records.state[rows], records.next_state[rows]], dim=1)
        values = run_tensors(self._layers, states)
        q, q_online = values[-1][:, :batch_size], values[-1][:, batch_size:]
        q_target = run_tensors(self._frozen_layers, states[:, batch_size:])[-1]
        y = self._targets(rows, q_online, q_target)
        action = records.action[rows][..., None]
        delta = q.gather(-1, action)[..., 0] - y
        loss = delta.square().mean(-1)
        # Written so that NaN fails.
        is_good = loss.isfinite() & (q.abs().amax((1, 2)) <= settings.q_limit)
        is_new = ~is_good & (self._diverged_at < 0)
        self._diverged_at.copy_(self._t.where(is_new, self._diverged_at))
        pushed = torch.zeros_like(q).scatter_(-1, action, (delta * (2.0 / batch_size))[..., None])
        self._backward(values, pushed)
        self._descend()
        self._t.add_(1)

    def _backward(self, values: list[Any], pushed: Any) -> None:
        """Write the gradient; ``pushed`` is that of Q at the states."""
        for k, (weight, bias) in reversed(list(enumerate(self._gradient_layers))):
            here = values[k][:, : self._settings.batch_size]
            torch.bmm(here.transpose(1, 2), pushed, out=weight)
            torch.sum(pushed, dim=1, keepdim=True, out=bias)
            if k > 0:
                pushed = torch.bmm(pushed, self._layers[k][0].transpose(1, 2)).mul_(here > 0)

    def _descend(self) -> None:
        """Take one step of RMSProp."""
        settings = self._settings
        passed = torch.div(self._t * settings.batch_size, self._period, rounding_mode="floor")
        rate = (settings.learning_rate / (passed + 1).double()).float()
        decay, epsilon = settings.rms_decay, settings.rms_epsilon
        if self._device.type == "cuda":
            from spibb.deep.descent_cuda import descend

            tensors = (self._params, self._v, self._gradient, rate[:, 0], self._diverged_at)
            descend(tensors, decay=decay, epsilon=epsilon)
            return
        self._gradient.masked_fill_((self._diverged_at >= 0)[:, None], 0.0)
        self._v.mul_(decay).addcmul_(self._gradient, self._gradient, value=1.0 - decay)
        root = self._v.sqrt().add_(epsilon)
        self._params.sub_(self._gradient.mul_(rate).div_(root))

    def _targets(self, rows: Any, q_online: Any, q_target: Any) -> Any:
        """Return y, shape (R, batch)."""
        records = self._records
        ahead = torch.empty_like(q_target[..., 0])
        for operator, is_double, members in self._groups:
            driver = (q_online if is_double else q_target)[members]
            if not operator.needs.errors:
                best = driver.argmax(-1, keepdim=True)
                ahead[members] = q_target[members].gather(-1, best)[..., 0]
                continue
            counts = records.n_next[rows[members]].double()
            errors = errors_for(operator, counts, self._n_wedge[members, :, None])
            given = (driver, records.baseline_next[rows[members]], errors)
            values, baseline, costs = (part.double().flatten(0, -2) for part in given)
            budgets = self._epsilon[members].expand(driver.shape[:-1]).flatten().contiguous()
            policy = apply_rows(operator, values, baseline, costs, budgets, values)
            ahead[members] = (policy.view(driver.shape) * q_target[members]).sum(-1).float()
        ahead = ahead.masked_fill_(records.terminated[rows], 0.0)
        penalty = self._kappa / records.n_here[rows].sqrt()
        penalty.masked_fill_(self._kappa == 0, 0.0)
        return (records.reward[rows] - penalty + self._settings.gamma * ahead).float()
