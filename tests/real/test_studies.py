"""Every study is planned, and run in the quick form of its header: on real services, with an answer at the end.

`make test` runs those of `OFTEN`, `make test-long` the others.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.programs import find
from plimsoll.plan import load_experiment
from plimsoll.plan.tiers import tiers_of
from tests.conftest import ROOT, Lab, missing
from tests.real.slurm import needs_slurm
from tests.real.test_gram import needs_gram
from tests.real.test_limits import require
from tests.real.test_rucio import needs_rucio
from tests.real.test_services import needs
from tests.real.test_storage import needs as needs_storage
from tests.real.test_testbed import needs_testbeds

STUDIES = sorted((ROOT / "studies").rglob("*.yaml"))
OFTEN = {"frontier/02-gateway", "frontier/13-uncached"}
"""Run by every `make test`: a gateway before a database, and the same behind a cache, both without emulated hosts."""
LIMIT_S = 600
"""Time for the quick form of a study, s."""
LENIENT = (
    "validity.lateness_floor=10s",
    "validity.tester_cpu=100%",
    "validity.gaps=100%",
    "validity.trend=false",
    "validity.steal=100%",
)
"""The machine of the tests may be busy, and has no cores to spare."""

NOT_COMPARED = {
    "frontier/10-consistency": {
        "db": "the gateway sends queries of its own to follow changes, and the writer sends updates"
    },
    "frontier/30-database-cache": {"squid": "the quick form has the direct method only"},
    "frontier/31-availability": {
        **dict.fromkeys(("gateway-a", "gateway-b"), "a client that fails over sends a query more than once"),
        **dict.fromkeys(("squid-a", "squid-b"), "each request may go through either of two proxies"),
    },
    "replication/01-same-place": {"db": "the writer sends updates, which are not counted as queries"},
    "replication/02-near-far": {"db": "the writer sends updates, which are not counted as queries"},
    **{
        f"catalogues/{each}": {"db": "the statements of a catalogue for one operation are not counted"}
        for each in ("01-local", "02-security", "03-far", "04-protocols", "05-databases", "06-rucio")
    },
    "frontier/32-writers-cost": {"db": "the writers send updates, which are not counted as queries"},
}
"""Services that no run of a quick form compares with the requests of their clients, and why. Direct access to a
database is compared: it counts its statements."""
UNCOUNTED = {
    **dict.fromkeys(
        (
            f"transfer/{each}"
            for each in (
                "01-clients",
                "02-memory",
                "03-streams",
                "04-security",
                "05-third-party",
                "07-replicas",
            )
        ),
        "exec",
    ),
    **dict.fromkeys(("jobs/01-managers", "jobs/02-requests", "jobs/03-joining"), "exec"),
    "transfer/06-http-reads": "XRootD counts opened files, which are not requests",
}
"""Studies without any comparison of requests: the client programs of `exec` may send requests to any service. The bytes
that servers of files sent are compared with the payload (`assert_bytes_agree`)."""
RESTARTED = {"frontier/31-availability"}
"""Studies that restart services, whose counters then begin again: a planned comparison may be missing."""


def name_of(study: Path) -> str:
    """FOLDER/FILE without its ending: files of several folders have the same name."""
    return f"{study.parent.name}/{study.stem}"


def is_of_jobs(study: Path) -> bool:
    """Whether its transactions are jobs. Most jobs have no payload."""
    return study.parent.name == "jobs"


def quick_form(study: Path) -> list[str]:
    """The words after `# quick:` in the header."""
    (line,) = re.findall(r"^# quick: (.*)$", study.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(line)


def test_there_are_studies() -> None:
    assert len(STUDIES) >= 10
    assert {name_of(path) for path in STUDIES} >= OFTEN


def needs_limits_of(study: Path, tmp_path: Path) -> None:
    """Skips where the limits of a study do not hold, because `plan` refuses them there."""
    if "limits: {cpu:" in study.read_text(encoding="utf-8"):
        require(tmp_path, "cpu")


@pytest.mark.parametrize("study", STUDIES, ids=name_of)
def test_a_study_is_planned(study: Path, lab: Lab, tmp_path: Path) -> None:
    needs_limits_of(study, tmp_path)
    whole, quick = (lab.run("plan", study, *words, "--json") for words in ([], quick_form(study)))
    assert whole.code == quick.code == 0, whole.err + quick.err
    assert len(whole.json["runs"]) > len(quick.json["runs"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES, ids=name_of)
def test_each_service_of_a_study_is_compared_or_listed(study: Path) -> None:
    """The client view against the server view, as planned: tests of `make test-long` measure it."""
    sets = [word for word in quick_form(study) if word != "--set"]
    cells = [cell.config for cell in load_experiment(study, sets).cells]
    services = {service.name for config in cells for service in config.services}
    tiers = [tier for config in cells for tier in tiers_of(config)]
    compared = {name for tier in tiers for name in (tier.service, *tier.others)}
    assert services - compared == (
        services if name_of(study) in UNCOUNTED else set(NOT_COMPARED.get(name_of(study), {}))
    )


def marks_of(study: Path) -> list[pytest.MarkDecorator]:
    """All but `OFTEN` are long; those on emulated hosts share a testbed, which only one command may use at a time."""
    shared = "kind: testbed" in study.read_text(encoding="utf-8")
    return [
        *([] if name_of(study) in OFTEN else [pytest.mark.long]),
        *([pytest.mark.xdist_group("testbed of studies")] if shared else []),
    ]


@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize(
    "study", [pytest.param(path, id=name_of(path), marks=marks_of(path)) for path in STUDIES]
)
def test_a_study_in_its_quick_form_ends_with_an_answer(study: Path, lab: Lab, tmp_path: Path) -> None:
    needs_limits_of(study, tmp_path)
    kinds = set(re.findall(r"kind: (postgres|mariadb|squid|nginx|slapd)", study.read_text(encoding="utf-8")))
    needs(*sorted(kinds))
    for kind in sorted(set(re.findall(r"kind: (gridftp|xrootd)", study.read_text(encoding="utf-8")))):
        needs_storage(kind)
    if "kind: rucio" in study.read_text(encoding="utf-8"):
        needs_rucio()
    if is_of_jobs(study):
        needs_gram()
        needs_slurm()
    if name_of(study) == "catalogues/02-security" and find(["openssl"]) is None:
        missing("openssl", "apt-get install openssl")
    if "kind: testbed" in study.read_text(encoding="utf-8"):
        needs_testbeds()
    lab.limit_s = LIMIT_S
    rules = [word for rule in LENIENT for word in ("--set", rule)]
    if re.search(r"^vars: .*\bpython:", study.read_text(encoding="utf-8"), re.MULTILINE):
        rules += ["--set", f"vars.python={sys.executable}"]  # it has the packages of programs of the study
    done = lab.run("run", study, *quick_form(study), *rules, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["experiment"]["question"]
    assert found["answer"], "no sentence"
    for run in found["runs"]:
        assert run["valid"], run["invalid_reasons"]
        assert run["transactions"] > 0
        assert run["payload_bytes_per_s"] > 0 or is_of_jobs(study), run["cell"]
        assert run["counts"]["succeeded"] > 0, run["cell"]
    if name_of(study) in UNCOUNTED:
        assert_bytes_agree(study, found)
    else:
        assert_views_agree(study, lab, found)


def assert_bytes_agree(study: Path, found: dict[str, Any]) -> None:
    """In each window, the servers sent at least the payload of the clients, without what was in progress at its ends,
    and at most 5 % more. Servers that restart begin to count again."""
    if name_of(study) == "transfer/07-replicas" or is_of_jobs(study):
        return
    for run in found["runs"]:
        counted = [service["counters"] for service in run["services"]]
        sent = sum(counters.get("bytes_sent", counters.get("bytes_out", 0)) for counters in counted)
        payload = (
            run["payload_bytes_per_s"] * run["window_s"] / run["transactions"] * run["counts"]["succeeded"]
        )
        each = payload / run["counts"]["succeeded"]
        open_at_end = (run["counts"]["in_flight_at_end"] + run["counts"]["failed"]) * each
        assert 0.99 * payload <= sent <= 1.05 * payload + open_at_end, (run["cell"], sent, payload)


def assert_views_agree(study: Path, lab: Lab, found: dict[str, Any]) -> None:
    """In each run, the requests that each service counted are those that its clients sent. A run of a study with
    exceptions may have no other service."""
    every = set()
    for run in found["runs"]:
        record = json.loads((lab.results() / "runs" / run["id"] / "run.json").read_text(encoding="utf-8"))
        planned = {tier["service"] for tier in record.get("tiers", ())}
        compared = {tier["service"]: tier for tier in run.get("tiers", ())}
        assert planned or name_of(study) in NOT_COMPARED, f"{run['cell']}: no service is compared"
        every |= planned
        assert name_of(study) in RESTARTED or set(compared) == planned, run["cell"]
        for name, tier in compared.items():
            assert tier["sent"] > 0 or tier["counted"] == 0, (run["cell"], name)
            assert abs(tier["difference"]) <= max(5, 0.01 * tier["sent"]), (run["cell"], tier)
    assert every, "no service is compared in any run"
