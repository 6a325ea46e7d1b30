"""The fast tier covers every package, and what it leaves out exists."""

import re
from pathlib import Path

import pytest

from fast_tier import SLOW

TESTS = Path(__file__).parent
# The conformance suite of spibb.testing is run by a module of another folder.
ELSEWHERE = {"testing": "algorithms/test_algorithms.py"}
PACKAGES = sorted(
    folder.parent.name for folder in (TESTS.parent / "src/spibb").glob("*/__init__.py")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_module_in_it(package):
    if package in ELSEWHERE:
        modules = {ELSEWHERE[package]}
    else:
        modules = {f"{package}/{one.name}" for one in (TESTS / package).glob("test_*.py")}
    assert package not in SLOW
    assert modules - SLOW


@pytest.mark.parametrize("place", sorted(SLOW))
def test_what_is_left_out_exists(place):
    path, _, name = place.partition("::")
    assert (TESTS / path).exists()
    if name:
        assert re.search(rf"^def {name}\(", (TESTS / path).read_text("utf-8"), re.M)
