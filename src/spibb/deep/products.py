"""Small float32 matrix products inside compiled loops, at the speed of a BLAS.

A tile of the result (up to 8 rows by 32 columns) stays in vector registers while the sum over k
runs, which Numba's own vectoriser does not achieve (28 GFLOP/s against 108 on one AVX-512 core,
where OpenBLAS has 108 too). Unlike a BLAS it brings no threads of its own, and each element is one
chain of fused multiply-adds in the order of k whatever its tile: the same bits in every batch, in
every population, and on every machine that fuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from spibb.compiled.jit import jit

_ROWS = 8
_INDEX, _PLACE = ir.IntType(64), ir.IntType(32)


def _tile(rows: int, lanes: int) -> Callable[..., None]:
    """Return a function for compiled code that computes ``rows`` x ``lanes`` elements.

    It writes ``c[r, j] = max(floor, d[j] + sum_k a[r, k] b[k, j])``, where NaN passes the maximum.
    Arrays are flat, each with the place of its first element and its strides; columns of b, c and d
    are neighbours. There are n > 0 terms.
    """
    vector = ir.VectorType(ir.FloatType(), lanes)
    blank = ir.Constant(vector, ir.Undefined)
    first_lane = ir.Constant(ir.VectorType(_PLACE, lanes), [0] * lanes)

    @intrinsic
    def tile(context: Any, a: Any, a0: Any, a_row: Any, a_k: Any, b: Any, b0: Any, b_k: Any,
             d: Any, d0: Any, c: Any, c0: Any, c_row: Any, n: Any, floor: Any) -> Any:  # fmt: skip
        i = types.intp
        signature = types.void(a, i, i, i, b, i, i, d, i, c, i, i, i, types.float32)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a, a0, a_row, a_k, b, b0, b_k, d, d0, c, c0, c_row, n, floor = args
            kinds = signature.args

            def pointer(kind: Any, array: Any, place: Any) -> Any:
                data = context.make_array(kind)(context, builder, array).data
                return builder.gep(data, [place])

            def spread(value: Any) -> Any:
                one = builder.insert_element(blank, value, _PLACE(0))
                return builder.shuffle_vector(one, blank, first_lane)

            def load(place: Any) -> Any:
                return builder.load(builder.bitcast(place, vector.as_pointer()), align=4)

            first_a = pointer(kinds[0], a, a0)
            first_b = pointer(kinds[4], b, b0)
            first_c = pointer(kinds[9], c, c0)
            begin = load(pointer(kinds[7], d, d0))
            starts = [builder.gep(first_a, [builder.mul(a_row, _INDEX(r))]) for r in range(rows)]
            before = builder.block
            loop = builder.append_basic_block("terms")
            after = builder.append_basic_block("written")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(_INDEX)
            k.add_incoming(_INDEX(0), before)
            sums = [builder.phi(vector) for _ in range(rows)]
            columns = load(builder.gep(first_b, [builder.mul(k, b_k)]))
            grown = []
            for total, start in zip(sums, starts, strict=True):
                factor = builder.load(builder.gep(start, [builder.mul(k, a_k)]), align=4)
                term = builder.fmul(spread(factor), columns, flags=("contract",))
                grown.append(builder.fadd(total, term, flags=("contract",)))
                total.add_incoming(begin, before)
                total.add_incoming(grown[-1], loop)
            following = builder.add(k, _INDEX(1))
            k.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
            builder.position_at_end(after)
            least = spread(floor)
            for r, total in enumerate(grown):
                is_low = builder.fcmp_ordered("<", total, least)
                row_c = builder.gep(first_c, [builder.mul(c_row, _INDEX(r))])
                row_c = builder.bitcast(row_c, vector.as_pointer())
                builder.store(builder.select(is_low, least, total), row_c, align=4)
            return context.get_dummy_value()

        return signature, generate

    return tile


_tall_32, _tall_8, _tall_1 = _tile(_ROWS, 32), _tile(_ROWS, 8), _tile(_ROWS, 1)
_flat_32, _flat_8, _flat_1 = _tile(1, 32), _tile(1, 8), _tile(1, 1)


@jit
def product(a, a0, a_row, a_k, b, b0, d, d0, floor, c, c0, n_rows, n_columns, n_terms):  # type: ignore[no-untyped-def]
    """Write ``c = max(floor, a b + d)`` for c (n_rows, n_columns) and b (n_terms, n_columns).

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
        n_terms: Columns of a, rows of b; > 0.
    """
    n = n_columns
    i = 0
    while i + _ROWS <= n_rows:
        at, to = a0 + i * a_row, c0 + i * n
        j = 0
        while j + 32 <= n:
            _tall_32(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 32
        while j + 8 <= n:
            _tall_8(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 8
        while j < n:
            _tall_1(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 1
        i += _ROWS
    while i < n_rows:
        at, to = a0 + i * a_row, c0 + i * n
        j = 0
        while j + 32 <= n:
            _flat_32(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 32
        while j + 8 <= n:
            _flat_8(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 8
        while j < n:
            _flat_1(a, at, a_row, a_k, b, b0 + j, n, d, d0 + j, c, to + j, n, n_terms, floor)
            j += 1
        i += 1


@jit
def transpose(source, at, n_rows, n_columns, out):  # type: ignore[no-untyped-def]
    """Write the (n_rows, n_columns) matrix at ``source[at:]`` into ``out`` with axes exchanged."""
    for first in range(0, n_rows, 16):
        last = min(first + 16, n_rows)
        for j in range(n_columns):
            for i in range(first, last):
                out[j * n_rows + i] = source[at + i * n_columns + j]
