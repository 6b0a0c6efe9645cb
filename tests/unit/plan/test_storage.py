"""The service kinds `gridftp` and `xrootd` in the experiment file, and addresses of services in commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan import engine_document, make_plan

FILE = """\
plimsoll: 1
services:
  store: {kind: gridftp, security: gsi, files: {count: 3, size: 10MB, seed: 2}, connections: 50}
  head:  {kind: xrootd, role: redirector, lookup: 1s}
  data:  {kind: xrootd, redirector: head, instances: 2, files: {size: 1kB}}
workload:
  driver: exec
  target: store
  exec:
    command: [copy, "{endpoint}/f{n}", "root://{head.host}:{head.port}//data/{n}"]
    env: {X509_USER_PROXY: "{store.credentials}/proxy"}
load: {testers: 1}
run: {duration: 1s}
"""


def test_data_servers_need_their_redirector() -> None:
    (cell,) = load(FILE).cells
    services = {service.name: service for service in cell.config.services}
    assert services["data.2"].needs == ("head",)
    assert services["data.1"].settings["files"] == {"count": 1, "size": 1000, "seed": 1}
    assert (services["store"].scheme, services["head"].scheme) == ("gsiftp", "root")
    assert not cell.config.workloads[0].warnings, "addresses are not unknown values"


def test_the_engine_receives_commands_with_addresses() -> None:
    experiment = load(FILE)
    (planned,) = make_plan(experiment, 1).runs
    addresses = {
        "store": ["gsiftp://127.0.0.1:2811/w/store-1/files"],
        "head": ["root://127.0.0.1:1094//data"],
    }
    (work,) = engine_document(planned, addresses, Path("/run"), "x")["workloads"]
    (operation,) = work["operations"]
    assert operation["request"]["command"] == ["copy", "{endpoint}/f{n}", "root://127.0.0.1:1094//data/{n}"]
    assert work["settings"]["env"] == {"X509_USER_PROXY": "/w/store-1/credentials/proxy"}
    assert work["endpoints"] == [{"name": "store", "url": addresses["store"][0]}]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("count: 3", "count: 0", "must be at least 1"),
        ("size: 10MB", "size: 0B", "must be at least 1"),
        ("security: gsi", "security: tls", "anonymous"),
        ("connections: 50", "settings: {port: 2811}", "Plimsoll sets this"),
        ("security: gsi, ", "", "{store.credentials}: store makes no certificates"),
        ("{store.credentials}", "{stoer.credentials}", 'there is no service stoer; did you mean "store"?'),
        ("{head.host}", "{haed.host}", 'there is no service haed; did you mean "head"?'),
        ("redirector: head", "redirector: store", "store is a service of kind gridftp, not xrootd"),
        ("redirector: head", "redirector: none", "there is no service none"),
        ("role: redirector, lookup: 1s", "files: {}", "head is not a redirector: give it `role: redirector`"),
        ("role: redirector, lookup", "lookup", "this is a key of a redirector"),
        ("lookup: 1s", "lookup: 1500ms", "expected whole seconds"),
        ("lookup: 1s", "files: {}", "a redirector stores no files"),
        ("redirector: head, ", "", "no service has `redirector: head`"),
    ],
)
def test_invalid_settings_are_rejected(before: str, after: str, message: str) -> None:
    assert before in FILE
    assert message in "\n".join(problems(FILE.replace(before, after)))


def test_a_redirector_is_listed_above_its_data_servers() -> None:
    lines = FILE.splitlines(keepends=True)
    lines[3], lines[4] = lines[4], lines[3]
    assert "move head above data" in "\n".join(problems("".join(lines)))
