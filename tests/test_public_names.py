"""The public names: all of them are shown, documented, and what the commands are made of."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

import spibb
from spibb.cli.app import app

PAGE = (Path(__file__).parents[1] / "docs/python.md").read_text("utf-8")
TABLE = dict(re.findall(r"^\| `(spibb [^`]+)` \| (.+) \|$", PAGE, re.M))


def commands(group, *path):
    """Return the words of every command below a group."""
    if not hasattr(group, "commands"):
        return [" ".join(path)]
    return [line for name, part in group.commands.items() for line in commands(part, *path, name)]


def resolved(name):
    """Return what a dotted name stands for."""
    parts = name.split(".")
    value = import_module(parts[0])
    for place, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            import_module(".".join(parts[:place]))
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", spibb.__all__)
def test_public_names_are_shown_and_documented(name):
    assert name in dir(spibb)
    if name == "deep":
        pytest.importorskip("torch", reason="networks need the extra 'deep'")
    assert getattr(spibb, name).__doc__


def test_testing_is_a_public_package():
    assert "testing" in dir(spibb)
    assert spibb.testing is import_module("spibb.testing")


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'improove'"):
        spibb.improove  # noqa: B018


@pytest.mark.parametrize("command", commands(get_command(app), "spibb"))
def test_every_command_has_a_call_in_the_docs(command):
    assert command in TABLE


@pytest.mark.parametrize("command", TABLE)
def test_the_calls_in_the_docs_exist(command):
    calls = re.findall(r"`(spibb\.[\w.]+)`", TABLE[command])
    assert calls
    for call in calls:
        assert resolved(call) is not None
