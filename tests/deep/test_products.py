"""The compiled matrix product: right for every shape, and one order of additions."""

import numpy as np
import pytest

from spibb.deep.products import product, transpose

NO_FLOOR = np.float32(-np.inf)


def multiply(a, b, d=None, floor=NO_FLOOR, is_turned=False):
    (n_rows, n_terms), n_columns = a.shape, b.shape[1]
    d = np.zeros(n_columns, np.float32) if d is None else d
    c = np.full((n_rows, n_columns), np.nan, np.float32)
    stored = np.ascontiguousarray(a.T if is_turned else a)
    strides = (1, n_rows) if is_turned else (n_terms, 1)
    product(stored.ravel(), 0, *strides, b.ravel(), 0, d, 0, floor, c.ravel(), 0, n_rows,
            n_columns, n_terms)  # fmt: skip
    return c


@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("n_columns", [1, 8, 9, 31, 32, 75])
@pytest.mark.parametrize("n_terms", [1, 5, 32])
def test_every_shape(n_rows, n_columns, n_terms):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n_rows, n_terms)).astype(np.float32)
    b = rng.normal(size=(n_terms, n_columns)).astype(np.float32)
    d = rng.normal(size=n_columns).astype(np.float32)
    expected = a.astype(float) @ b + d
    np.testing.assert_allclose(multiply(a, b, d), expected, atol=1e-5)
    np.testing.assert_allclose(multiply(a, b, d, is_turned=True), expected, atol=1e-5)
    cut = multiply(a, b, d, np.float32(0))
    np.testing.assert_allclose(cut, np.maximum(expected, 0), atol=1e-5)


def test_an_element_does_not_depend_on_its_tile():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(19, 40)).astype(np.float32)
    b = rng.normal(size=(40, 45)).astype(np.float32)
    whole = multiply(a, b)
    for i in range(19):
        for j in range(45):
            assert multiply(a[i : i + 1], np.ascontiguousarray(b[:, j : j + 1])) == whole[i, j]


def test_nan_passes_the_floor():
    a = np.array([[np.nan], [-1.0]], np.float32)
    found = multiply(a, np.ones((1, 2), np.float32), floor=np.float32(0))
    assert np.isnan(found[0]).all()
    assert (found[1] == 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (40, 5), (33, 17)])
def test_transpose(shape):
    matrix = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = np.empty(shape[::-1], np.float32)
    transpose(matrix.ravel(), 0, *shape, found.ravel())
    np.testing.assert_array_equal(found, matrix.T)
