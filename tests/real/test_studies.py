"""Every study in its quick form, the one that stands in its own header: on real services, with an answer at the end."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, Lab
from tests.real.test_services import needs
from tests.real.test_testbed import needs_testbeds

STUDIES = sorted((ROOT / "studies").rglob("*.yaml"))
LENIENT = (
    "validity.lateness_floor=10s",
    "validity.tester_cpu=100%",
    "validity.trend=false",
    "validity.steal=100%",
)
"""The machine of the tests may be busy, and has no cores to spare."""


def quick_form(study: Path) -> list[str]:
    """The words after `# quick:` in the header."""
    (line,) = re.findall(r"^# quick: (.*)$", study.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(line)


def test_there_are_studies() -> None:
    assert len(STUDIES) >= 10


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_a_study_in_its_quick_form_ends_with_an_answer(study: Path, lab: Lab) -> None:
    kinds = set(re.findall(r"kind: (postgres|mariadb|squid|nginx)", study.read_text(encoding="utf-8")))
    needs(*sorted(kinds))
    if "kind: testbed" in study.read_text(encoding="utf-8"):
        needs_testbeds()
    lab.limit_s = 600
    rules = [word for rule in LENIENT for word in ("--set", rule)]
    done = lab.run("run", study, *quick_form(study), *rules, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["experiment"]["question"]
    assert found["answer"], "no sentence"
    for run in found["runs"]:
        assert run["valid"], run["invalid_reasons"]
        assert run["transactions"] > 0
        assert run["payload_bytes_per_s"] > 0, run["cell"]
