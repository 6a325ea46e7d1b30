"""Prose that users read: short sentences, and the words of the glossary."""

import ast
import re
from pathlib import Path

import pytest

import spibb

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(Path(spibb.__file__).parent.rglob("*.py"))
TEMPLATES = sorted(Path(spibb.__file__).parent.rglob("*.html"))
LONGEST, LONGEST_MEAN = 40, 22
# What the glossary says in another way; each pattern with what to say.
PRIVATE = {
    r"\bwho(ever)? acted\b": "behaviour policy",
    r"\bnever tried\b": "unobserved",
    r"\bhardly seen\b": "low count",
    r"\bdrawn to\b": "shrunk towards",
    r"\bluck\b": "selection bias",
    r"\berr alike\b": "correlated errors",
    r"\bworlds\b": "simulated scenarios",
    r"\bworst tenth\b": "lower-tail mean",
    r"\bnot to be told\b": "withheld",
    r"\bslow to dare\b": "low power",
    r"\bthese doors\b": "formats",
    r"\bcut short\b": "truncated",
    r"\bflatter(s|ing|ed)\b": "optimistic",
}
# Uses of these words that are ordinary: a part of the sentence, and why.
ORDINARY = (
    "press your luck",  # a game
    "press-your-luck",
    "good luck",
    "by luck",
    "grid worlds",
)


def blocks(text):
    """Return paragraphs and items of lists of a page, without code, tables and filled parts."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"<!-- fill:.*?<!-- end:.*?-->", "\n\n", text, flags=re.DOTALL)
    found, block = [], []
    for line in [*text.splitlines(), ""]:
        part = line.strip()
        begins = re.match(r"([*-]|\d+\.) ", part)
        is_prose = (
            part and not part.startswith(("|", "#", "<", "!")) and not line.startswith("    ")
        )
        if block and (begins or not is_prose):
            found.append(" ".join(block))
            block = []
        if is_prose:
            block.append(part[begins.end() :] if begins else part)
    return found


def sentences(block):
    """Return the sentences of a paragraph; links, code and formulas count as a word."""
    block = re.sub(r"\]\([^)]*\)", "]", block)
    block = re.sub(r"`[^`]*`", "Code", block)
    block = re.sub(r"\b(e\.g|i\.e|et al|cf|vs)\.", r"\1", block)
    return [one for one in re.split(r"(?<=[.!?:])\s+(?=[A-Z\[*\"(])", block) if one.strip()]


def n_words(sentence):
    return len(re.findall(r"[A-Za-z0-9'-]*[A-Za-z][A-Za-z0-9'-]*", sentence))


def said_privately(text):
    """Return what a text says in words of its own, with what to say."""
    for ordinary in ORDINARY:
        text = re.sub(re.escape(ordinary), "", text, flags=re.IGNORECASE)
    return [
        f"{found[0]} -> {say}"
        for pattern, say in PRIVATE.items()
        for found in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]


def strings(path):
    """Yield the texts of a module, docstrings too, with their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_are_short(page):
    found = [one for block in blocks(page.read_text("utf-8")) for one in sentences(block)]
    assert not [one for one in found if n_words(one) > LONGEST]


def test_sentences_are_short_on_average():
    every = [
        n_words(one)
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        for one in sentences(block)
    ]
    assert len(every) > 1_000
    assert sum(every) / len(every) <= LONGEST_MEAN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_glossary(page):
    assert not [one for block in blocks(page.read_text("utf-8")) for one in said_privately(block)]


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=lambda p: p.name)
def test_messages_and_docstrings_use_the_glossary(folder):
    found = [
        f"{path.name}:{line}: {one}"
        for path in sorted(folder.glob("*.py"))
        for line, text in strings(path)
        for one in said_privately(text)
    ]
    assert not found


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_reports_use_the_glossary(path):
    assert not said_privately(path.read_text("utf-8"))


def test_messages_have_short_sentences():
    found = [
        f"{path.name}:{line}: {one}"
        for path in SOURCES
        for line, text in strings(path)
        if "\n" not in text and not text.startswith("<")
        for one in sentences(text)
        if n_words(one) > LONGEST
    ]
    assert not found


def test_the_reader_of_prose_sees_what_is_there():
    page = (
        "# Title\n\nOne `x` here. Two\nlines: Three.\n\n* item a\n* item b\n\n| a | b |\n\n"
        "```\nx\n```\n"
    )
    assert blocks(page) == ["One `x` here. Two lines: Three.", "item a", "item b"]
    assert sentences(blocks(page)[0]) == ["One Code here.", "Two lines:", "Three."]
    assert said_privately("In 0 of 100 worlds, by luck.") == ["worlds -> simulated scenarios"]
