"""Counter-based random numbers: published values, and three implementations that agree."""

import numba
import numpy as np
import pytest
import torch

from spibb.compiled.random_numbers import (
    below,
    minibatch,
    mix64,
    number,
    numbers,
    signed,
    stream_state,
    torch_minibatch,
    torch_numbers,
    uniforms,
)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SEEDS = [0, 1, 7, 2**63, 2**64 - 1]
PLACES = np.array([0, 1, 2, 1_000, 2**40], dtype=np.uint64)

# Outputs of splitmix64 for the seed 1234567, as published with the reference implementation.
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_published_outputs_of_splitmix64():
    state = np.uint64(1234567)
    assert [int(number(state, np.uint64(i))) for i in range(5)] == PUBLISHED


def test_a_stream_is_splitmix64_from_the_mixed_seed():
    seed, stream = 99, 3
    start = int(mix64(np.uint64((seed + stream * 0xD1342543DE82EF95) % 2**64)))
    expected = [int(number(np.uint64(start), np.uint64(i))) for i in range(4)]
    assert numbers(seed, stream, np.arange(4)).tolist() == expected


@numba.njit
def compiled(seed, stream, i):
    return number(stream_state(seed, stream), i)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stream", [0, 1, 5])
def test_compiled_numpy_and_torch_agree(seed, stream):
    expected = [int(compiled(np.uint64(seed), np.uint64(stream), i)) for i in PLACES]
    assert numbers(seed, stream, PLACES).tolist() == expected
    for device in DEVICES:
        found = torch_numbers(
            torch.tensor(int(signed(seed)), device=device),
            stream,
            torch.tensor(signed(PLACES), device=device),
        )
        assert found.cpu().numpy().view(np.uint64).tolist() == expected


def test_uniforms_are_multiples_below_one():
    drawn = uniforms(3, 1, np.arange(10_000))
    assert drawn.dtype == np.float32
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert (drawn * 2**24 == np.floor(drawn * 2**24)).all()
    np.testing.assert_allclose([drawn.mean(), drawn.var()], [0.5, 1 / 12], atol=0.01)


@pytest.mark.parametrize("n", [1, 7, 10_000, 2**31 - 1])
def test_minibatches_agree_and_stay_in_range(n):
    seeds = np.array(SEEDS, dtype=np.uint64)
    expected = minibatch(seeds, 12, batch_size=5, n=n)
    assert expected.shape == (5, 5)
    assert expected.min() >= 0
    assert expected.max() < n
    for device in DEVICES:
        places = torch.arange(60, 65, device=device)
        found = torch_minibatch(torch.tensor(signed(seeds), device=device)[:, None], places, n)
        assert found.cpu().numpy().tolist() == expected.tolist()


def test_the_largest_number_maps_to_the_last_row():
    assert int(below(np.uint64(2**64 - 1), np.uint64(10))) == 9
    assert int(below(np.uint64(0), np.uint64(10))) == 0


def test_every_row_is_drawn_equally_often():
    drawn = minibatch(5, 0, batch_size=100_000, n=10)
    np.testing.assert_allclose(np.bincount(drawn), 10_000, rtol=0.05)
