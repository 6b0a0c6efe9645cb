"""Text from outside changes nothing on a terminal."""

from __future__ import annotations

import pytest

from plimsoll.cli.main import main
from plimsoll.printable import printable, printable_lines


def test_control_characters_are_shown() -> None:
    assert printable("Linux\x1b[31m 6.1\x1b]0;title\x07") == "Linux\\x1b[31m 6.1\\x1b]0;title\\x07"
    assert printable("a\u202eb\x9b1m") == "a\\x202eb\\x9b1m"
    assert printable("two\nlines\tand 1\u00a0ms, ü") == "two lines and 1\u00a0ms, ü"
    assert printable_lines("a\x1b\nb") == "a\\x1b\nb"


def test_an_error_that_names_something_from_outside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no\x1b[31mfile.yaml"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and "no\\x1b[31mfile.yaml" in err
