"""The names of spibb.deep are there after ``import spibb``, and load only when they are used."""

import subprocess
import sys

import pytest

import spibb


def test_every_name_is_found():
    for name in spibb.deep.__all__:
        assert getattr(spibb.deep, name).__name__ == name
    assert set(spibb.deep.__all__) <= set(dir(spibb.deep))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        spibb.deep.Nothing  # noqa: B018


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, spibb; spibb.deep; print({'torch', 'numba'} & set(sys.modules) or 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"
