"""Every study is planned, and run in the quick form of its header: on real services, with an answer at the end.

`make test` runs those of `OFTEN`, `make test-long` the others.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, Lab
from tests.real.test_limits import require
from tests.real.test_services import needs
from tests.real.test_testbed import needs_testbeds

STUDIES = sorted((ROOT / "studies").rglob("*.yaml"))
OFTEN = {"02-gateway", "13-uncached"}
"""Run by every `make test`: a gateway before a database, and the same behind a cache, both without emulated hosts."""
LENIENT = (
    "validity.lateness_floor=10s",
    "validity.tester_cpu=100%",
    "validity.gaps=100%",
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
    assert {path.stem for path in STUDIES} >= OFTEN


def needs_limits_of(study: Path, tmp_path: Path) -> None:
    """Skips where the limits of a study do not hold, because `plan` refuses them there."""
    if "limits: {cpu:" in study.read_text(encoding="utf-8"):
        require(tmp_path, "cpu")


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_a_study_is_planned(study: Path, lab: Lab, tmp_path: Path) -> None:
    needs_limits_of(study, tmp_path)
    whole, quick = (lab.run("plan", study, *words, "--json") for words in ([], quick_form(study)))
    assert whole.code == quick.code == 0, whole.err + quick.err
    assert len(whole.json["runs"]) > len(quick.json["runs"]) > 0


@pytest.mark.parametrize(
    "study",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in OFTEN else pytest.mark.long)
        for path in STUDIES
    ],
)
def test_a_study_in_its_quick_form_ends_with_an_answer(study: Path, lab: Lab, tmp_path: Path) -> None:
    needs_limits_of(study, tmp_path)
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
