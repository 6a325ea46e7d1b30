"""Many estimated models of one shape, laid out for the compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.errors import ModelError

if TYPE_CHECKING:
    from spibb.mdp.model import TabularMDP


class Rows(NamedTuple):
    """Rows of a sparse array: counts, or probabilities.

    Attributes:
        indptr: Where each row starts, shape (S * A + 1,).
        indices: Successor states.
        data: How often, or how likely.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]


class ModelArrays(NamedTuple):
    """The arrays of one model, neither copied nor checked.

    Attributes:
        rows: Transition probabilities.
        reward: R(x, a), shape (S, A).
        ending: Probability that the step ends the process, shape (S, A).
        initial: Distribution of the first state, shape (S,).
        gamma: The discount.
    """

    rows: Rows
    reward: NDArray[np.float64]
    ending: NDArray[np.float64]
    initial: NDArray[np.float64]
    gamma: float


@dataclass(frozen=True, eq=False)
class ModelBatch:
    """B models with S states, A actions and one discount.

    Row ``(b * S + x) * A + a`` of the sparse arrays holds P_b(. | x, a).

    Attributes:
        indptr: Where each row starts in `indices` and `data`, shape (B * S * A + 1,).
        indices: Successor states.
        data: Their probabilities.
        reward: R_b(x, a), shape (B, S, A).
        ending: Probability that the episode ends with the step, shape (B, S, A).
        initial: Distribution of the first state, shape (B, S).
        gamma: The discount.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]
    reward: NDArray[np.float64]
    ending: NDArray[np.float64]
    initial: NDArray[np.float64]
    gamma: float
    # Whether kernels run on a GPU; spibb.mdp.cuda has the batch that does.
    is_on_gpu: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, S, A)."""
        b, s, a = self.reward.shape
        return b, s, a

    def place(self, array: NDArray[Any]) -> Any:
        """Return a copy of an array where the kernels of this batch work."""
        return array.copy()

    def keep(self, array: NDArray[np.float64]) -> Any:
        """Return an array that nobody writes to where the kernels work, placed there once."""
        return array

    def place_kept(self, array: NDArray[np.float64]) -> Any:
        """Return a copy, to be written to, of an array that is kept."""
        return array.copy()

    def unknown(self, shape: tuple[int, ...]) -> Any:
        """Return values that are not known yet; what is never computed stays NaN."""
        return np.full(shape, np.nan)

    def fetch(self, array: Any) -> NDArray[np.float64]:
        """Return a placed array as a NumPy array."""
        return np.asarray(array)

    @classmethod
    def stack(cls, models: Sequence[TabularMDP | ModelArrays]) -> ModelBatch:
        """Lay models of one shape and one discount behind each other."""
        first = models[0]
        for index, model in enumerate(models):
            if model.reward.shape != first.reward.shape or model.gamma != first.gamma:
                raise ModelError(
                    f"a batch of models of shapes {first.reward.shape} and {model.reward.shape}, "
                    f"gamma {first.gamma} and {model.gamma}",
                    where=f"problem {index}",
                    expected="one number of states, of actions, and one discount",
                    hint="call improve_many once for each shape",
                )
        sizes = np.array([len(model.rows.indices) for model in models], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        starts = [
            model.rows.indptr[:-1].astype(np.int64) + offset
            for model, offset in zip(models, offsets[:-1], strict=True)
        ]
        if len(models) == 1:  # a large single model is not copied
            indices, data = first.rows.indices, first.rows.data
        else:
            indices = np.concatenate([model.rows.indices for model in models])
            data = np.concatenate([model.rows.data for model in models])
        return cls(
            indptr=np.concatenate([*starts, offsets[-1:]]),
            indices=indices.astype(np.int32, copy=False),
            data=data,
            reward=np.stack([model.reward for model in models]),
            ending=np.stack([model.ending for model in models]),
            initial=np.stack([model.initial for model in models]),
            gamma=first.gamma,
        )
