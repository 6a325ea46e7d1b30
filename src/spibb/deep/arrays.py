"""One body of arithmetic for NumPy arrays and torch tensors.

Functions that are spelled the same in both (``where``, ``clip``, ``sqrt``, ``stack``,
``concatenate``, ``asarray``, ``cumsum(-1)`` ...) are taken from :func:`namespace`; torch is loaded
only by whoever brings a tensor or asks for a device.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from spibb.errors import MissingDependencyError, SettingsError


def is_tensor(value: object) -> bool:
    """Say whether a value is a torch tensor, without loading torch."""
    return type(value).__module__.split(".")[0] == "torch"


def namespace(array: Any) -> ModuleType:
    """Return ``torch`` for a tensor, else ``numpy``."""
    if not is_tensor(array):
        return np
    import torch

    return torch


def import_torch() -> Any:
    """Return torch, or say how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "torch is not installed", hint='pip install "spibb[deep]"'
        ) from None
    return torch


def on_device(array: Any, device: str | None) -> Any:
    """Return an array as it is (``device`` None), or as a tensor on a device.

    Example:
        >>> on_device(np.ones(2), None)
        array([1., 1.])
    """
    if device is None:
        return array
    torch = import_torch()
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise SettingsError(f"device is {device!r}", expected="'cpu', 'cuda' or the like") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"device is {device!r} and torch finds no GPU",
            expected="a device that is there",
            hint="use device='cpu', or install a CUDA build of torch",
        )
    return torch.as_tensor(array, device=chosen)
