"""What kernels for lanes share: see spibb.mdp.evaluation."""

import numba


@numba.njit(cache=True, nogil=True)
def barrier():  # type: ignore[no-untyped-def]
    """Wait until every lane is here: one lane need not; on a GPU, the barrier of a warp."""
