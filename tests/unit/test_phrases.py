"""Words and phrases that texts do not use (the table of docs/style.md), in documents and in what the lab prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import ROOT

STYLE = ROOT / "docs" / "style.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LAB = sorted((ROOT / "python" / "plimsoll").rglob("*.py"))
EXEMPT = {STYLE, ROOT / "CHANGELOG.md"}
"""The table itself; and the history of changes, which is not rewritten."""
NAMES = {"not told apart", "nobody"}
"""A stored value of analysis.json, and the name of an account."""


def phrases() -> tuple[str, ...]:
    """The first column of the table at the end of the page."""
    table = STYLE.read_text(encoding="utf-8").rsplit("|---|---|", 1)[1]
    return tuple(row.split("|")[1].strip() for row in table.strip().splitlines())


def pattern_of(words: tuple[str, ...]) -> re.Pattern[str]:
    """A phrase as whole words, across line breaks."""
    return re.compile(
        r"\b(?:" + "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in words) + r")\b", re.I
    )


def prose(page: str) -> str:
    """A page without code blocks, code spans, comments and links; line breaks stay."""
    kept = re.sub(r"```.*?```|<!--.*?-->", lambda m: "\n" * m.group(0).count("\n"), page, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)\n]*\)", "", kept)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of the string literals of a module, without docstrings."""
    tree = ast.parse(source)
    bodies = [getattr(node, "body", None) for node in ast.walk(tree)]
    lists = [body for body in bodies if isinstance(body, list)]
    bare = [each.value for body in lists for each in body if isinstance(each, ast.Expr)]
    docs = {id(each) for each in bare if isinstance(each, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


NOT_USED = phrases()
PATTERN = pattern_of(NOT_USED)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in EXEMPT], ids=lambda page: page.name)
def test_documents_use_the_usual_words(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    found = [(text.count("\n", 0, each.start()) + 1, each.group(0)) for each in PATTERN.finditer(text)]
    assert found == []


def test_messages_of_the_lab_use_the_usual_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {each.group(0)}: {text[:60]}"
        for path in LAB
        for line, text in texts(path.read_text(encoding="utf-8"))
        if text not in NAMES
        for each in PATTERN.finditer(prose(text))
    ]
    assert found == []


def test_the_table_is_read_and_phrases_are_seen() -> None:
    assert len(NOT_USED) >= 25 and "whoever" in NOT_USED
    assert PATTERN.search("the page, told\n apart by its name")
    assert not PATTERN.search(prose("see `anew` and\n```\nwhoever\n```\n"))
    assert list(texts('"""anew"""\nx = "in vain"\n')) == [(2, "in vain")]
