"""One body of arithmetic for NumPy arrays and torch tensors.

Functions that are spelled the same in both (``where``, ``clip``, ``sqrt``, ``stack``,
``concatenate``, ``asarray``, ``cumsum(-1)`` ...) are taken from :func:`namespace`; torch is loaded
only by whoever brings a tensor or asks for a device.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError, SettingsError, SpibbError, import_extra


def is_tensor(value: object) -> bool:
    """Say whether a value is a torch tensor, without loading torch."""
    return type(value).__module__.split(".")[0] == "torch"


def namespace(array: Any) -> ModuleType:
    """Return ``torch`` for a tensor, else ``numpy``."""
    if not is_tensor(array):
        return np
    import torch

    return torch


def to_numpy(values: Any) -> Any:
    """Return a tensor, of any device and kind, as an array; anything else as it is."""
    if not is_tensor(values):
        return values
    found = values.detach().cpu()
    # NumPy has none of the short kinds such as bfloat16.
    is_short = found.is_floating_point() and found.element_size() < 4
    return (found.float() if is_short else found).numpy()


def as_float32(values: Any, name: str) -> NDArray[np.float32]:
    """Return numbers as contiguous float32; those beyond its range become infinite.

    Args:
        values: Anything that NumPy makes an array of.
        name: What they are, for the message.

    Example:
        >>> as_float32([1, 2.5], "rewards")
        array([1. , 2.5], dtype=float32)
    """
    try:
        array = np.asarray(to_numpy(values))
        if array.dtype.kind in "biufO":
            with np.errstate(over="ignore"):
                return array.astype(np.float32, order="C", copy=False)
    except (TypeError, ValueError, RuntimeError, OverflowError, AttributeError):
        pass  # ragged; objects; whole numbers beyond float64; sparse tensors; modules of torch
    raise DataError(f"{name} has values that are not numbers", expected="numbers of NumPy's kinds")


def check_rows(
    is_good: Any,
    what: Callable[[tuple[int, ...]], str],
    *,
    expected: str,
    hint: str | None = None,
    error: type[SpibbError] = DataError,
    within: str = "",
) -> None:
    """Raise unless everything is good, naming the first place that is not.

    Args:
        is_good: Flags, an array or a tensor: of rows, or of their coordinates on a last axis.
        what: What is wrong at a place, which is given.
        expected: What would have been accepted.
        hint: What to do about it.
        error: What is raised.
        within: What the rows belong to, where that must be said.
    """
    if bool(is_good.all()):
        return
    place = tuple(int(part) for part in np.argwhere(~to_numpy(is_good))[0])
    names = (f"{within}row", "coordinate")
    where = ", ".join(f"{name} {part}" for name, part in zip(names, place, strict=False))
    raise error(what(place), where=where or None, expected=expected, hint=hint)


def import_torch() -> Any:
    """Return torch, or say how to install it."""
    return import_extra("torch", "torch is not installed", "deep")


def on_device(array: Any, device: str | None) -> Any:
    """Return an array as it is (``device`` None), or as a tensor on a device.

    Example:
        >>> on_device(np.ones(2), None)
        array([1., 1.])
    """
    if device is None:
        return array
    return import_torch().as_tensor(array, device=checked_device(device))


def checked_device(device: Any) -> Any:
    """Return a device of torch's that is there, a GPU with its number."""
    torch = import_torch()
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise SettingsError(f"device is {device!r}", expected="'cpu', 'cuda' or 'cuda:0'")
    if chosen.type == "cpu":
        return chosen
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = chosen.index
    if index is None and n_devices:
        index = torch.cuda.current_device()
    if index is None or index >= n_devices:
        found = f"only {n_devices}" if n_devices else "none"
        raise SettingsError(
            f"a GPU is asked for, and torch finds {found} (device {str(device)!r})",
            expected="a device that is there",
            hint="use device='cpu', or install a CUDA build of torch and check nvidia-smi",
        )
    return torch.device("cuda", index)
