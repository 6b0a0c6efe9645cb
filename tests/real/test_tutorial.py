"""docs/tutorial.md, followed literally in an empty directory.

Figures are masked; lines and words must agree (tests/real/tutorial.py). After a change of messages, renew the outputs
and read what changed; this runs the commands at full length, two minutes:

    PLIMSOLL_GOLDEN=write .venv/bin/python -m pytest -n 0 tests/real/test_tutorial.py -k literally
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT, Lab
from tests.real.tutorial import Shell, difference, plain, renewed, steps

TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.mark.long
@pytest.mark.alone  # What it prints depends on the load of the host, as a full host is named as the bottleneck.
@pytest.mark.timeout(400)
def test_the_tutorial_can_be_followed_literally(lab: Lab) -> None:
    lines = TUTORIAL.read_text(encoding="utf-8").splitlines()
    write = os.environ.get("PLIMSOLL_GOLDEN") == "write"
    port = _free_port()
    state = lab.directory / "state"
    here = lab.directory / "here"
    here.mkdir()
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(state),
        "NO_COLOR": "1",
    }
    made, wrong = [], []
    with Shell(here, env) as shell:
        for step in steps(lines):
            if step.file:
                (here / step.file).write_text("\n".join(step.printed) + "\n", encoding="utf-8")
                continue
            command = step.command if write else step.short().replace(":8080", f":{port}")
            shown = {str(here): "/home/you", str(ROOT): "/home/you/plimsoll", f":{port}": ":8080"}
            output = [_replaced(line, shown) for line in shell.run(command)]
            made.append((step, output))
            if found := difference(step.printed, output, step.varies):
                wrong.append(f"docs/tutorial.md:{step.line + 1}: {step.command}\n{found}")
    if write:
        TUTORIAL.write_text("\n".join(renewed(lines, made)) + "\n", encoding="utf-8")
    assert not wrong or write, "\n\n".join(wrong)


def test_figures_are_masked_and_words_are_not() -> None:
    one = ["  old   2  91.2 +/- 1.1  25 (18 to 33) ms  0 %", "  Throughput of old is 91.2 requests/s."]
    same = ["  old   2  101,391 +/- 12  3.2 us  1.5 %", "  Throughput of old is 4 requests/s."]
    other = ["  new   2  91.2 +/- 1.1  25 (18 to 33) ms  0 %", "  Throughput of old is 91.2 requests/s."]
    assert not difference(one, same)
    assert "new" in difference(one, other)


def test_left_out_lines_are_any_lines_and_no_others() -> None:
    printed = ["run 1/12  old", "...", "run 12/12  new"]
    assert not difference(printed, ["run 1/12  old", "a", "b", "run 12/12  new"])
    assert "run #/# old" in difference(printed, ["b", "run 12/12  new"])
    assert "run #/# new" in difference(printed, ["run 1/12  old", "b"])
    assert "also" in difference(["a"], ["a", "b"])


def test_what_varies_is_only_what_is_named() -> None:
    assert not difference(["ok    CPU", "x"], ["warn  CPU", "x"], ["^(ok|warn) +"])
    assert difference(["ok    CPU"], ["warn  memory"], ["^(ok|warn) +"])
    assert plain(["  ! one run is invalid"], ["^  ! .*"]) == []


def test_a_sentence_may_be_wrapped_anywhere() -> None:
    printed = ["  The target served 3 requests/s (5 kB/s of payload), with response times of 2 ms."]
    assert not difference(
        printed, ["  The target served 4 requests/s (7 kB/s of payload), with", "  response times of 8 us."]
    )
    assert difference(["  One is done.", "  Two"], ["  One is done. Three"])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _replaced(line: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        line = line.replace(old, new)
    return line
