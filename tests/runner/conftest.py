"""The tiny study, in a file to be run and as the files it should end in."""

import pytest
from running import TINY, Study, content, run_all


@pytest.fixture
def tiny(tmp_path) -> Study:
    plan = tmp_path / "tiny.toml"
    plan.write_text(TINY.to_toml(), encoding="utf-8")
    return Study(plan, tmp_path / "study")


@pytest.fixture(scope="session")
def tiny_result(tmp_path_factory) -> dict[str, bytes]:
    """The files of the tiny study, run here without a break."""
    out = tmp_path_factory.mktemp("whole") / "study"
    run_all(TINY, out, workers=1)
    return content(out)
