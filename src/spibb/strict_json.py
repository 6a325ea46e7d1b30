"""Values as strict JSON, which has neither infinities nor NaN."""

from __future__ import annotations

import math
from typing import Any

# Of all JSON that commands write and print: version 3 has the words of the glossary.
VERSION = 3


def strict_json(value: Any) -> Any:
    """Turn tuples into lists, infinite numbers into "inf" and "-inf", and NaN into null.

    Example:
        >>> strict_json({"bound": float("-inf"), "ends": (1.0, float("nan"))})
        {'bound': '-inf', 'ends': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: strict_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
