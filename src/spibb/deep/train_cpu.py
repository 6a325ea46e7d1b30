"""Train a population on the CPU: a compiled loop trains one member after the other.

Threads share out the members. A member's numbers come from its own seed, its own data set and one
fixed order of additions (spibb.deep.products), so its result is the same, bit for bit, alone or in
any population, on any number of threads. The improvement step is the row function of the tabular
algorithms.

Activations are (batch, units) in C order; the states of a minibatch and their next states go
through the online network as one batch of twice the size, states first.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import inlined_jit, jit
from spibb.compiled.random_numbers import MINIBATCHES, below, number, stream_state
from spibb.compiled.threads import over_chunks
from spibb.deep.engine import TrainingEngine, carrying
from spibb.deep.forward import LEAST, ZERO, layer_firsts, run_layers
from spibb.deep.population import PopulationState, TrainingBatch
from spibb.deep.products import product, transpose
from spibb.operators.rows import N_SCRATCH_ROWS, step_row

_STREAM = np.uint64(MINIBATCHES)


# The settings, as the compiled loop reads them.
Constants = namedtuple(
    "Constants",
    "sizes batch_size target_period annealing_samples gamma learning_rate rms_decay rms_epsilon "
    "q_limit",
)
# Memory of one thread; `_scratch` says what for.
Scratch = namedtuple("Scratch", "rows first values pushed gradient zeros ones row work delta")


class CpuEngine(TrainingEngine):
    """Trains a population on the CPU's cores."""

    carries = carrying("cpu")

    def _train(self, state: PopulationState, t: int, n_steps: int) -> None:
        _run(self._trainings, state, t, n_steps)


def measure(trainings: TrainingBatch, state: PopulationState) -> NDArray[np.float32]:
    """Look at the minibatch that each member draws next. Every engine's curves come from here.

    Returns:
        Its loss and its mean max Q, shape (2, R), NaN where a member has ended or diverged.
    """
    return _run(trainings, state, state.t, 0)


def _run(
    trainings: TrainingBatch, state: PopulationState, t: int, n_steps: int
) -> NDArray[np.float32]:
    """Take steps in place; with none, look at the next one."""
    found = np.full((2, len(state.params)), np.nan, dtype=np.float32)
    members, recipes = (*state.arrays.values(), found), trainings.recipes
    settings = (getattr(trainings.settings, name) for name in Constants._fields[1:])
    constants = Constants(np.array(trainings.sizes, dtype=np.int64), *settings)
    about = (t, n_steps, constants, trainings.records, recipes, members)
    order = np.argsort(-recipes.n_steps, kind="stable")
    over_chunks(lambda places: _train(places, *about), order, are_long=True)
    return found


@inlined_jit
def _scratch(sizes, batch_size, n_parameters):  # type: ignore[no-untyped-def]
    n_actions = sizes[len(sizes) - 1]
    first = layer_firsts(sizes, 2 * batch_size)
    return Scratch(
        np.empty(batch_size, np.int64),  # which transitions
        first,  # places of the layers' activations, one more than there are layers
        # Activations of the online network, layer after layer, (2 batch, units) each; those of the
        # target network, likewise.
        np.empty((2, first[len(sizes)]), np.float32),
        np.empty((2, batch_size * sizes.max()), np.float32),  # gradients of two layers' units
        # The gradient, and the transpose of one layer's weights.
        np.empty((2, n_parameters), np.float32),
        np.zeros(sizes.max(), np.float32),
        np.ones(batch_size, np.float32),
        # q, baseline, errors and the new policy of one next state; what row functions write to.
        np.empty((4, n_actions), np.float64),
        np.empty((N_SCRATCH_ROWS, n_actions), np.float64),
        np.empty(batch_size, np.float32),  # Q - y
    )


@jit
def _train(places, t0, n_steps, constants, records, recipes, members):  # type: ignore[no-untyped-def]
    """Train some members, or, with n_steps = 0, only look at their next minibatch.

    One function for both, because compiling takes seconds.
    """
    params, target, v, diverged_at, found = members
    scratch = _scratch(constants.sizes, constants.batch_size, params.shape[1])
    for m in places:
        if diverged_at[m] >= 0:
            continue
        online, frozen = params[m], target[m]
        period = max(constants.annealing_samples, recipes.n_rows[m])
        for t in range(t0, min(t0 + max(n_steps, 1), recipes.n_steps[m])):
            if t % constants.target_period == 0:
                if n_steps > 0:
                    frozen[:] = online
                else:
                    frozen = online
            loss, max_q, is_good = _look(m, t, constants, records, recipes, online, frozen, scratch)
            if n_steps == 0:
                found[0, m], found[1, m] = loss, max_q
                break
            if not (is_good and np.isfinite(loss)):
                diverged_at[m] = t
                break
            _backward(constants.sizes, constants.batch_size, records, online, scratch)
            rate = constants.learning_rate / ((t * constants.batch_size) // period + 1)
            _descend(online, v[m], scratch.gradient[0], np.float32(rate), constants)


@inlined_jit
def _look(m, t, constants, records, recipes, online, frozen, scratch):  # type: ignore[no-untyped-def]
    """Draw a minibatch and write Q - y into the scratch.

    Returns the mean of its square, the mean over the states of max Q, and whether |Q| is in bounds.
    """
    sizes, batch_size = constants.sizes, constants.batch_size
    n_layers = len(sizes) - 1
    n_actions = sizes[n_layers]
    is_double = recipes.is_double[m]
    values, q_next, first = scratch.values[0], scratch.values[1], scratch.first[n_layers]
    next_at = batch_size * sizes[0]
    _draw(t, m, recipes, records, scratch.rows, values)
    n_online = 2 * batch_size if is_double else batch_size
    run_layers(sizes, n_online, online, values, 0, values, scratch.first)
    run_layers(sizes, batch_size, frozen, values, next_at, q_next, scratch.first)
    # Where the Q that drives the step begins.
    driver, driver_at = (values, first + batch_size * n_actions) if is_double else (q_next, first)
    q, baseline, errors, policy = scratch.row[0], scratch.row[1], scratch.row[2], scratch.row[3]
    operator, kappa, n_wedge = recipes.operator[m], recipes.kappa[m], recipes.n_wedge[m]
    needs_errors, has_budget = recipes.needs_errors[m], recipes.has_budget[m]
    loss, total, is_good = np.float32(0.0), np.float32(0.0), True
    for b in range(batch_size):
        row = scratch.rows[b]
        own = first + b * n_actions
        y = np.float64(records.reward[row])
        if kappa > 0.0:
            y -= kappa / np.sqrt(np.float64(records.n_here[row]))
        if not records.terminated[row]:
            for a in range(n_actions):
                q[a] = driver[driver_at + b * n_actions + a]
                if needs_errors:
                    baseline[a] = records.baseline_next[row, a]
                    n = np.float64(records.n_next[row, a])
                    if has_budget:
                        errors[a] = 1.0 / np.sqrt(n)
                    else:
                        errors[a] = 0.0 if n >= n_wedge else np.inf
            step_row(operator, q, baseline, errors, recipes.epsilon[m], q, policy, scratch.work)
            ahead = 0.0
            for a in range(n_actions):
                ahead += policy[a] * q_next[own + a]
            y += constants.gamma * ahead
        best = values[own]
        for a in range(n_actions):
            value = values[own + a]
            best = max(best, value)
            # Written so that NaN fails.
            is_good &= abs(value) <= constants.q_limit
        total += best
        delta = values[own + records.action[row]] - np.float32(y)
        scratch.delta[b] = delta
        loss += delta * delta
    return loss / np.float32(batch_size), total / np.float32(batch_size), is_good


@inlined_jit
def _draw(t, m, recipes, records, rows, values):  # type: ignore[no-untyped-def]
    """Draw transitions, and write their states and then their next states."""
    stream, n_rows = stream_state(recipes.seed[m], _STREAM), np.uint64(recipes.n_rows[m])
    n_features, next_at = records.state.shape[1], len(rows) * records.state.shape[1]
    for b in range(len(rows)):
        drawn = number(stream, np.uint64(t * len(rows) + b))
        rows[b] = recipes.first_row[m] + np.int64(below(drawn, n_rows))
        for k in range(n_features):
            values[b * n_features + k] = records.state[rows[b], k]
            values[next_at + b * n_features + k] = records.next_state[rows[b], k]


@inlined_jit
def _backward(sizes, batch_size, records, params, scratch):  # type: ignore[no-untyped-def]
    """Write the gradient of the mean of delta^2 into the scratch."""
    n_layers = len(sizes) - 1
    n_actions = sizes[n_layers]
    values, gradient, turned = scratch.values[0], scratch.gradient[0], scratch.gradient[1]
    here, below_here = scratch.pushed[0], scratch.pushed[1]
    scale = np.float32(2.0) / np.float32(batch_size)
    here[: batch_size * n_actions] = 0.0
    for b in range(batch_size):
        here[b * n_actions + records.action[scratch.rows[b]]] = scale * scratch.delta[b]
    at = len(params)
    for k in range(n_layers - 1, -1, -1):
        fan_in, fan_out = sizes[k], sizes[k + 1]
        at -= fan_out
        product(scratch.ones, 0, batch_size, 1, here, 0, scratch.zeros, 0, LEAST, gradient, at, 1,
                fan_out, batch_size)  # fmt: skip
        at -= fan_in * fan_out
        product(values, scratch.first[k], 1, fan_in, here, 0, scratch.zeros, 0, LEAST, gradient,
                at, fan_in, fan_out, batch_size)  # fmt: skip
        if k == 0:
            break
        transpose(params, at, fan_in, fan_out, turned)
        product(here, 0, fan_out, 1, turned, 0, scratch.zeros, 0, LEAST, below_here, 0,
                batch_size, fan_in, fan_out)  # fmt: skip
        first = scratch.first[k]
        for i in range(batch_size * fan_in):
            below_here[i] = below_here[i] if values[first + i] > ZERO else ZERO
        here, below_here = below_here, here


@inlined_jit
def _descend(params, v, gradient, rate, constants):  # type: ignore[no-untyped-def]
    """Take one step of RMSProp."""
    decay, fresh = np.float32(constants.rms_decay), np.float32(1.0 - constants.rms_decay)
    epsilon = np.float32(constants.rms_epsilon)
    for i in range(len(params)):
        g = gradient[i]
        v[i] = decay * v[i] + fresh * g * g
        params[i] -= rate * g / (np.sqrt(v[i]) + epsilon)
