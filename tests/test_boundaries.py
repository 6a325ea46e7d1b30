"""The import contract names every module, so that none escapes it."""

import tomllib
from pathlib import Path

import spibb

ROOT = Path(__file__).parent.parent


def test_the_contract_lists_every_module():
    source = Path(spibb.__file__).parent
    found = {f"spibb.{path.stem}" for path in source.glob("*.py") if not path.stem.startswith("__")}
    found |= {f"spibb.{path.parent.name}" for path in source.glob("*/__init__.py")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    assert sorted(layers) == sorted(found)
