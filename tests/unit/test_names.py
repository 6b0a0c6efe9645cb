"""Names in the code: verbs for what changes state, nouns for types, and the field's terms for constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import ROOT

RUST = sorted(path for path in (ROOT / "crates").rglob("*.rs") if "target" not in path.parts)
PYTHON = sorted((ROOT / "python" / "plimsoll").rglob("*.py"))

CHANGES_STATE = re.compile(r"fn (?:(?:is|has|was)_\w+|is|has|was)(?:<[^>]*>)?\(\s*&mut self")
"""A predicate that may change what it is asked about."""
PARTICIPLES = "Asked|Begun|Done|Ended|Found|Given|Gone|Held|Kept|Known|Left|Lost|Made|Met"
PARTICIPLES += "|Opened|Said|Seen|Taken|Told|Wanted"
PYTHON_ONLY = "Adjusted|Cheapest|Chosen|Closed|Counted|Counting|Directed|Elsewhere|Every|Exact"
PYTHON_ONLY += "|Exponential|Finished|Fixed|Guarded|Highest|Interrupted|LeftOut|Missing|Named|Observed"
PYTHON_ONLY += "|Open|Pooled|Recorded|Refused|Resolved|Short|Staged|Started|Stated|Superseded|Uniform"
PYTHON_ONLY += "|Unknown|Unparsed|Versioned|Watched|Watching"
"""Further participles and adjectives, which are not type names in Python."""
RUST_ONLY = "Acknowledged|Changed|Cleaned|Created|Denied|Directed|Encoded|Estimated|Failed|Grown"
RUST_ONLY += "|Linked|Mapped|Merged|Mixed|Modified|Monotone|Need|Open|Owed|Parsed|Pinned|Prepared"
RUST_ONLY += "|Pushed|Queued|Recent|Recorded|Refused|Registered|Renewed|Replayed|Shared|Sought"
RUST_ONLY += "|Stored|Subtracted|Unexplained|Unfinished|Unparsed|Untraced|Used|When|Written"
"""Further participles, which are not type names in Rust."""
OTHER_NAMES = "Conduct|Crew|Fleet|Member|Seat|Squad|Turns"
"""Type names that do not state what the type contains."""
RUST_TYPE = re.compile(rf"\b(?:struct|enum|trait|type) ({PARTICIPLES}|{RUST_ONLY}|{OTHER_NAMES})\b")
PYTHON_TYPE = re.compile(
    rf"^(?:class )?(_?(?:{PARTICIPLES}|{PYTHON_ONLY}|{OTHER_NAMES}))(?:[(:]| = )", re.MULTILINE
)
"""A class, or another name of a type."""
BOUNDS = "MOST|LEAST|LONGEST|SHORTEST|LARGEST|PATIENCE"
RUST_CONSTANT = re.compile(rf"\b(?:const|static) (\w*_)?(?:{BOUNDS})(?:_\w+)?:")
PYTHON_CONSTANT = re.compile(rf"^_?(?:[A-Z]+_)*(?:{BOUNDS})(?:_[A-Z0-9_]+)?(?:: Final)? =", re.MULTILINE)
ALLOWED = {("client.py", "Done")}
"""Part of the public interface of client programs."""


def matches(pattern: re.Pattern[str], paths: list[Path]) -> Iterator[str]:
    """File and line of each match."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            if (path.name, match.group(match.lastindex or 0)) not in ALLOWED:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}: {match.group(0)}"


def test_predicates_do_not_change_state() -> None:
    assert list(matches(CHANGES_STATE, RUST)) == []


def test_types_are_named_by_what_they_contain() -> None:
    assert [*matches(RUST_TYPE, RUST), *matches(PYTHON_TYPE, PYTHON)] == []


def test_bounds_are_called_max_min_and_timeout() -> None:
    assert [*matches(RUST_CONSTANT, RUST), *matches(PYTHON_CONSTANT, PYTHON)] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (CHANGES_STATE, "fn is_gone(&mut self)"),
        (CHANGES_STATE, "pub fn was_cut<R: Read>(\n        &mut self,"),
        (CHANGES_STATE, "fn is(&mut self, kind: Kind)"),
        (RUST_TYPE, "pub(super) struct Told<'a> {"),
        (RUST_TYPE, "pub enum Mapped {"),
        (PYTHON_TYPE, "class Found:"),
        (PYTHON_TYPE, "class _Unknown(Exception):"),
        (PYTHON_TYPE, "Observed = tuple[float | None, Reason | None]"),
        (RUST_CONSTANT, "pub const MOST_LINES: usize"),
        (PYTHON_CONSTANT, "MOST_FILES: Final = 3"),
        (PYTHON_CONSTANT, "_UP_PATIENCE_S = 3"),
    ],
)
def test_names_that_are_not_used_are_seen(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)
