"""What other packages add: modules that they name under the entry point ``spibb``.

A package says in its ``pyproject.toml``

    [project.entry-points.spibb]
    mine = "my_package.my_module"

and its algorithms, error functions and estimators are found by name like those of spibb, on the
command line too. The module is imported where a name is not known, or where all are listed.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from spibb.errors import SettingsError


@cache
def load_plugins() -> None:
    """Import what other packages add, once; a package that cannot be imported is named."""
    for point in entry_points(group="spibb"):
        try:
            point.load()
        except Exception as error:
            raise SettingsError(
                f"the plugin {point.name!r} cannot be imported: {type(error).__name__}: {error}",
                expected=f"a module {point.value!r} that can",
                hint="repair the package that brings it, or uninstall it",
            ) from error
