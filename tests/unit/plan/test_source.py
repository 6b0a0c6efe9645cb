"""YAML 1.2 with lines: values, their lines, and texts that are rejected before the model checks them."""

from __future__ import annotations

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan.source.document import parse_document, parse_value


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = "a: yes\nb: true\nc: on\nd: 012\ne: 1.5\nf: !!str 5\ng: '5'\nh: 2026-01-01\ni: 1e3\nj: ~\nk: 0x1F\nl: True\n"
    assert parse_document(text, "t.yaml").data == {
        "a": "yes",
        "b": True,
        "c": "on",
        "d": 12,
        "e": 1.5,
        "f": "5",
        "g": "5",
        "h": "2026-01-01",
        "i": 1000.0,
        "j": None,
        "k": 31,
        "l": "True",
    }


def test_keys_are_strings_and_have_lines() -> None:
    document = parse_document("a:\n  1: x\n  10 kB: y\nb:\n  - {c: 1}\n  - 2\n", "t.yaml")
    assert document.data == {"a": {"1": "x", "10 kB": "y"}, "b": [{"c": 1}, 2]}
    assert document.line(("a", "10 kB")) == 3
    assert document.line(("b", 0, "c")) == 5
    assert document.line(("b", 1)) == 6
    assert document.line(("b", 0, "missing")) == 5


def test_json_is_accepted() -> None:
    assert parse_document('{\n\t"a": [1, true, null, "x"]\n}', "t.json").data == {"a": [1, True, None, "x"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "t.yaml:3: a: duplicate key, first in line 1"),
        ("a: {x: 1}\nb: {<<: {y: 2}}\n", "merge keys"),
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("a: [1, 2\n", "invalid YAML"),
        ("a: b: c\n", "needs quotes"),
        ("\ta: 1\n", "indent with spaces"),
        ("a: {b: ${env:X}}\n", "${...} inside { } or [ ] needs quotes"),
        ("a: 1\n---\nb: 2\n", "several YAML documents"),
        ("a: !!python/object/apply:os.system [ls]\n", "is not supported"),
        ("a: !mine x\n", 'the tag "!mine" is not supported'),
        ("a: &x [*x]\n", "an alias refers to itself"),
        ("[" * 3000, "nested deeper"),
        ("[" * 60 + "]" * 60, "nested deeper"),
        ("a: *nobody\n", "undefined alias"),
        ("a: \x00\n", "special characters"),
        ("? [a]\n: b\n", "a key must be a plain string"),
        ("x" * 1_000_001, "longer than"),
    ],
)
def test_invalid_documents_are_rejected(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_document(text, "t.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("t.yaml")


def test_expanded_aliases_are_limited() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    with pytest.raises(BadInput, match="100,000 values"):
        parse_document("\n".join(lines), "t.yaml")


def test_values_of_the_command_line_are_read_as_yaml() -> None:
    assert parse_value("4") == 4
    assert parse_value("30s") == "30s"
    assert parse_value("[1, 2]") == [1, 2]
    assert parse_value("{secret: x}") == {"secret": "x"}
    assert parse_value("") == ""
    assert parse_value("50/s..500/s") == "50/s..500/s"
