"""Data sets of Minari with discrete observations and actions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from spibb.data.discrete_spaces import discrete_space
from spibb.errors import DataError, SettingsError, import_extra

_PREFIX = "minari:"


def is_minari(path: Any) -> bool:
    """Whether a path names a data set, as ``minari:toy/lake-v0``."""
    return str(path).startswith(_PREFIX) if isinstance(path, str | Path) else False


def refuse_beside_minari(path: Any, **given: Any) -> None:
    """Refuse what a data set, whose columns and sizes are known, does not take."""
    for name, value in given.items():
        if value:
            raise SettingsError(f"{name} with {path}", expected="the data set alone")


def _checked_name(name: str) -> str:
    """Refuse a name that would lead out of Minari's folder."""
    if re.fullmatch(r"(?!.*\.\.)\w[\w.-]*(/\w[\w.-]*)*", name):
        return name
    raise DataError(
        f"{name!r} is no name of a data set of Minari",
        expected="letters, digits, points, hyphens and slashes, as in minari:toy/lake-v0",
        hint="run: minari list local",
    )


def minari_columns(dataset: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return columns, sizes and labels as `Log.of_columns` takes them.

    Args:
        dataset: A data set, or the name of one that is on this machine: nothing is fetched.
    """
    if isinstance(dataset, str | Path):
        name = _checked_name(str(dataset).removeprefix(_PREFIX))
        minari = import_extra("minari", f"{dataset} needs Minari, which is not installed", "tables")
        try:
            dataset = minari.load_dataset(name)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise DataError(
                f"cannot read the data set {name!r} of Minari: {str(error).splitlines()[0]}",
                expected="one that is on this machine",
                hint=f"run: minari download {name}",
            ) from None
    source = f"the data set {dataset.spec.dataset_id!r}"
    n_states, first_state, state_labels = discrete_space(
        dataset.observation_space, "observations", source
    )
    n_actions, first_action, action_labels = discrete_space(dataset.action_space, "actions", source)
    parts: dict[str, list[Any]] = {}
    for episode in dataset.iterate_episodes():
        seen = np.asarray(episode.observations, np.int64).reshape(-1) - first_state
        n = len(seen) - 1
        columns = {
            "state": seen[:-1], "next_state": seen[1:],
            "action": np.asarray(episode.actions, np.int64).reshape(-1) - first_action,
            "reward": np.asarray(episode.rewards, np.float64),
            "terminated": np.asarray(episode.terminations, np.bool_),
            "truncated": np.asarray(episode.truncations, np.bool_),
            "episode": np.full(n, int(episode.id)), "step": np.arange(n),
        }  # fmt: skip
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    if not parts:
        raise DataError(f"{source} has no episodes", expected="at least one")
    sizes = {"n_states": n_states, "n_actions": n_actions}
    labels = {"state_labels": state_labels, "action_labels": action_labels}
    return {name: np.concatenate(values) for name, values in parts.items()}, {**sizes, **labels}
