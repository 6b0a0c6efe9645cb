"""The rules of the house that no compiler enforces: who may import whom, and that documents point at what is there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.conftest import ROOT

CRATES = (
    "model",
    "schedule",
    "clock",
    "wire",
    "grid-proxy",
    "record",
    "preload-log",
    "trace",
    "replay",
    "limits",
    "drive",
    "monitor",
    "services",
    "link",
    "agent",
    "controller",
    "wan",
    "preload",
    "capture",
    "engine",
)
"""A crate depends only on crates before it in this list (ARCHITECTURE.md)."""
SEPARATE = {("drive", "record"), ("services", "drive"), ("monitor", "drive"), ("record", "drive")}
"""Pairs that the design forbids whatever the order: drivers never record, services know no tester."""
PURE = {
    "model": (),
    "schedule": ("model",),
    "clock": (),
    "wire": (),
    "grid-proxy": (),
    "preload-log": (),
    "trace": ("preload-log",),
}
"""What crates without I/O may depend on, of ours."""
RUNTIMES = ("tokio", "mio", "socket2")


def packages() -> dict[str, dict[str, list[str]]]:
    """Dependencies of each crate of ours: ordinary ones by name; development ones are left out."""
    done = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for package in json.loads(done.stdout)["packages"]:
        names = [one["name"] for one in package["dependencies"] if one["kind"] is None]
        ours = [name.removeprefix("plimsoll-") for name in names if name.startswith("plimsoll-")]
        others = [name for name in names if not name.startswith("plimsoll-")]
        found[package["name"].removeprefix("plimsoll-")] = {"ours": ours, "others": others}
    return found


def test_crates_depend_only_on_crates_above_them() -> None:
    found = packages()
    assert set(CRATES) <= set(found)
    for name in CRATES:
        for other in found[name]["ours"]:
            assert CRATES.index(other) < CRATES.index(name), f"{name} must not depend on {other}"
            assert (name, other) not in SEPARATE, f"{name} must not depend on {other}"


def test_pure_crates_have_no_runtime() -> None:
    found = packages()
    for name, allowed in PURE.items():
        assert set(found[name]["ours"]) <= set(allowed)
        assert not set(found[name]["others"]) & set(RUNTIMES), f"{name} is pure"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_documents_point_at_what_is_there(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} points at {target}"


ANSWER = ROOT / "python" / "plimsoll" / "analyse" / "answer"
READS_TEXT = {
    "replace", "split", "rsplit", "splitlines", "partition", "rpartition", "lower", "casefold", "find", "rfind",
    "index", "rindex", "count", "startswith", "endswith", "removeprefix", "removesuffix", "strip", "lstrip", "rstrip",
}  # fmt: skip
"""Methods of a text that look into it, or take it apart."""
OF_NAMES = {("words.py", "loads"), ("components.py", "component_words")}
"""Functions that look into names: `testers` without its s; whether a component calls itself a service."""


def _asks_for_a_word(each: ast.Compare) -> bool:
    """`"word" in text`."""
    left = each.left
    word = isinstance(left, ast.Constant) and isinstance(left.value, str)
    return word and isinstance(each.ops[0], (ast.In, ast.NotIn))


def reads_text(path: Path) -> list[str]:
    """Places at which a module looks into a text, as far as this can be seen."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = {
        each
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and (path.name, function.name) in OF_NAMES
        for each in ast.walk(function)
    }
    for each in ast.walk(tree):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            names = [one.name for one in each.names] + [getattr(each, "module", "") or ""]
            if {"re", "string", "textwrap"} & set(names):
                found.append(f"{path.name}:{each.lineno}: imports {names[0]}")
        elif each in allowed:
            continue
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            if each.func.attr in READS_TEXT:
                found.append(f"{path.name}:{each.lineno}: .{each.func.attr}()")
        elif isinstance(each, ast.Compare) and _asks_for_a_word(each):
            found.append(f"{path.name}:{each.lineno}: a word in a text")
    return found


def test_no_sentence_is_read_again_where_sentences_are_made() -> None:
    modules = sorted(ANSWER.glob("*.py"))
    assert len(modules) > 5
    assert [place for path in modules for place in reads_text(path)] == []


def test_a_module_that_reads_its_own_sentences_is_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('import re\nx = said.replace(" by ", "")\ny = "cannot be excluded" in found.text\n')
    assert len(reads_text(bad)) == 3


MAX_COMMENT_COLUMNS = 100


def wide_comments(source: str) -> list[str]:
    """Comment lines of Rust source over 100 columns. Fenced text, tables and single long words are exempt."""
    wide, fenced = [], False
    for line in source.splitlines():
        comment = re.match(r"\s*//[/!]?(?: (.*))?$", line)
        if comment is None:
            fenced = False
            continue
        text = comment[1] or ""
        if text.startswith("```"):
            fenced = not fenced
        if len(line) > MAX_COMMENT_COLUMNS and not fenced and not text.startswith("|") and " " in text:
            wide.append(line)
    return wide


def test_comments_of_the_engine_have_at_most_100_columns() -> None:
    sources = [*ROOT.glob("crates/**/*.rs"), *ROOT.glob("bench/**/*.rs")]
    wide = {str(path.relative_to(ROOT)): wide_comments(path.read_text()) for path in sources}
    assert not {path: lines for path, lines in wide.items() if lines}


def test_a_wide_comment_is_found() -> None:
    word = "a word " * 15
    assert wide_comments(f"    /// {word}\n// short\n") == [f"    /// {word}"]
    assert wide_comments(f"//! ```text\n//! {word}\n//! ```\n//! | {word} |\nlet long = 0; // {word}") == []
