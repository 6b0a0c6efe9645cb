"""JSON files have an entry per line, and lists of numbers on one line."""

from __future__ import annotations

import json
import math

import pytest

from plimsoll.drive.directory import json_text

DOCUMENT = {
    "format": "plimsoll.analysis/1",
    "series": [0.1, 2, None, -3e-7],
    "pairs": [[1, 2], [3]],
    "runs": [{"id": "0001", "text": 'line\nwith "quotes" and µ'}, {}],
    "empty": [],
    "nothing": None,
    "valid": True,
}


def test_it_is_the_same_document() -> None:
    assert json.loads(json_text(DOCUMENT)) == DOCUMENT


def test_lists_of_numbers_have_one_line() -> None:
    lines = json_text(DOCUMENT).splitlines()
    assert ' "series": [0.1, 2, null, -3e-07],' in lines
    assert "  [1, 2]," in lines
    assert '   "id": "0001",' in lines
    assert ' "empty": [],' in lines


def test_numbers_that_json_does_not_have_are_refused() -> None:
    for value in (math.nan, [1.0, math.inf]):
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_text({"x": value})
