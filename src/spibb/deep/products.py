"""Small float32 matrix products inside compiled loops, at the speed of a BLAS.

A tile of the result (up to 8 rows by 32 columns) stays in vector registers while the sum over k
runs, which Numba's own vectoriser does not achieve (28 GFLOP/s against 108 on one AVX-512 core,
where OpenBLAS has 108 too). Unlike a BLAS it brings no threads of its own, and each element is one
chain of fused multiply-adds in the order of k whatever its tile: the same bits in every batch, in
every population, and on every machine that fuses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spibb.compiled.jit import jit

# Rows and columns of the tiles; what is left of one size goes to the next. Powers of two.
_ROWS, _LANES = (8, 1), (32, 8, 1)
_INDEX, _PLACE = ir.IntType(64), ir.IntType(32)


@intrinsic
def _tiles(context, a, a0, a_row, a_k, b, b0, d, d0, floor, c, c0, n_rows, n_columns, n_terms):  # type: ignore[no-untyped-def]
    """Compute `product` tile by tile, in compiled code."""
    i = types.intp
    signature = types.void(a, i, i, i, b, i, d, i, types.float32, c, i, i, i, i)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, a0, a_row, a_k, b, b0, d, d0, floor, c, c0, n_rows, n_columns, n_terms = args

        def pointer(argument: int, array: Any, place: Any) -> Any:
            data = context.make_array(signature.args[argument])(context, builder, array).data
            return builder.gep(data, [place])

        first_a, first_b = pointer(0, a, a0), pointer(4, b, b0)
        first_d, first_c = pointer(6, d, d0), pointer(9, c, c0)

        def place(first: Any, row: Any, stride: Any, column: Any) -> Any:
            return builder.gep(first, [builder.add(builder.mul(row, stride), column)])

        def fill(rows: int, lanes: int, i: Any, j: Any) -> None:
            vector = ir.VectorType(ir.FloatType(), lanes)
            blank = ir.Constant(vector, ir.Undefined)
            first_lane = ir.Constant(ir.VectorType(_PLACE, lanes), [0] * lanes)

            def spread(value: Any) -> Any:
                one = builder.insert_element(blank, value, _PLACE(0))
                return builder.shuffle_vector(one, blank, first_lane)

            def load(where: Any) -> Any:
                return builder.load(builder.bitcast(where, vector.as_pointer()), align=4)

            begin, least = load(builder.gep(first_d, [j])), spread(floor)
            numbers = [builder.add(i, _INDEX(r)) for r in range(rows)]
            sums = [cgutils.alloca_once_value(builder, begin) for _ in numbers]
            with cgutils.for_range(builder, n_terms) as terms:
                columns = load(place(first_b, terms.index, n_columns, j))
                for row, total in zip(numbers, sums, strict=True):
                    at = builder.mul(terms.index, a_k)
                    factor = builder.load(place(first_a, row, a_row, at), align=4)
                    term = builder.fmul(spread(factor), columns, flags=("contract",))
                    grown = builder.fadd(builder.load(total), term, flags=("contract",))
                    builder.store(grown, total)
            for row, total in zip(numbers, sums, strict=True):
                found = builder.load(total)
                kept = builder.select(builder.fcmp_ordered("<", found, least), least, found)
                to = builder.bitcast(place(first_c, row, n_columns, j), vector.as_pointer())
                builder.store(kept, to, align=4)

        def steps(first: Any, n: Any, size: int) -> tuple[Any, Any]:
            end = builder.and_(n, _INDEX(-size))
            return end, cgutils.for_range_slice(builder, first, end, _INDEX(size), inc=True)

        i_end = _INDEX(0)
        for rows in _ROWS:
            i_end, down = steps(i_end, n_rows, rows)
            with down as (i, _):
                j_end = _INDEX(0)
                for lanes in _LANES:
                    j_end, across = steps(j_end, n_columns, lanes)
                    with across as (j, _):
                        fill(rows, lanes, i, j)
        return context.get_dummy_value()

    return signature, generate


@jit
def product(a, a0, a_row, a_k, b, b0, d, d0, floor, c, c0, n_rows, n_columns, n_terms):  # type: ignore[no-untyped-def]
    """Write ``c = max(floor, a b + d)`` for c (n_rows, n_columns) and b (n_terms, n_columns).

    NaN passes the maximum.

    Args:
        a: Flat float32 array; element (i, k) lies at a0 + i a_row + k a_k, so a transpose is free.
        a0: Place of its first element.
        a_row: Distance between its rows.
        a_k: Distance between its columns.
        b: Flat float32 array, C order.
        b0: Place of its first element.
        d: Flat float32 array: a row to add.
        d0: Place of its first element.
        floor: Least element of the result, 0 for ReLU, -inf for none; float32.
        c: Flat float32 array, C order.
        c0: Place of its first element.
        n_rows: Rows of a and c.
        n_columns: Columns of b, c and d.
        n_terms: Columns of a, rows of b.
    """
    _tiles(a, a0, a_row, a_k, b, b0, d, d0, floor, c, c0, n_rows, n_columns, n_terms)  # type: ignore[call-arg]


@jit
def transpose(source, at, n_rows, n_columns, out):  # type: ignore[no-untyped-def]
    """Write the (n_rows, n_columns) matrix at ``source[at:]`` into ``out`` with axes exchanged."""
    for first in range(0, n_rows, 16):
        last = min(first + 16, n_rows)
        for j in range(n_columns):
            for i in range(first, last):
                out[j * n_rows + i] = source[at + i * n_columns + j]
