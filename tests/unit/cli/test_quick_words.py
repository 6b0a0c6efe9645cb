"""Messages of `plimsoll URL` about its options."""

from __future__ import annotations

import pytest

from plimsoll.cli.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["http://127.0.0.1:9/", "-c", "0"], "plimsoll: -c: must be at least 1, got 0\n"),
        (["http://127.0.0.1:9/", "-z", "3"], 'plimsoll: -z: "3" has no unit'),
        (["localhost:18090"], "did you mean http://localhost:18090?"),
        (["web.example.org/a", "-c", "3"], "did you mean http://web.example.org/a?"),
        (["http://127.0.0.1:9/", "-o", "csv"], "-o is not an option: --json prints"),
        (["http://127.0.0.1:9/", "-T", "text/html"], "-H 'Content-Type: text/plain'"),
        (["rum"], 'did you mean "run"?'),
    ],
)
def test_messages(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
