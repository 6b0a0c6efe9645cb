"""What a GRAM gatekeeper is started with, and what is counted from its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.deploy.counters.logs.gram import GatekeeperCounters
from plimsoll.deploy.programs import VARIABLE
from plimsoll.deploy.servers.jobs import gram
from plimsoll.deploy.servers.needs import missing_programs

LOG = b""" PID: 7 -- Notice: 6: GRAM contact: 127.0.0.1:2119:/O=Plimsoll/CN=127.0.0.1
 PID: 9 -- Notice: 6: Got connection 127.0.0.1 at Sat Nov 28 16:00:00 2026
 PID: 9 -- Notice: 5: Authenticated globus user: /O=Plimsoll/CN=tester
 PID: 9 -- Notice: 5: Requested service: jobmanager-fork [PING ONLY]
Failure: ping successful
 PID: 9 -- Failure: ping successful
 PID: 10 -- Notice: 6: Got connection 127.0.0.1 at Sat Nov 28 16:00:01 2026
 PID: 10 -- Notice: 5: Authenticated globus user: /O=Plimsoll/CN=tester
 PID: 10 -- Notice: 5: Requested service: jobmanager-fork
 PID: 10 -- Notice: 0: Child 11 started
 PID: 12 -- Notice: 6: Got connection 127.0.0.1 at Sat Nov 28 16:00:02 2026
Failure: GSS failed Major:00090000 Minor:00000000 Token:00000003
TIME: Sat Nov 28 16:00:02 2026
 PID: 12 -- Failure: GSS failed Major:00090000 Minor:00000000 Token:00000003
"""


def test_requests_are_counted_by_kind() -> None:
    counters = GatekeeperCounters(lambda offset: LOG[offset : offset + 300], 0)
    assert counters.read().counters == {
        "connections": 3,
        "authenticated": 2,
        "pings": 1,
        "requests": 1,
        "started": 1,
        "failed": 1,
    }


def test_all_files_of_a_gatekeeper_are_in_its_directory() -> None:
    layout = gram.Layout(Path("/w/gram"), Path("/w/credentials/certificates"), "10.0.0.2", "nobody")
    lines = gram.configuration(["-save-logfile on_error"], layout).splitlines()
    assert {"-state-file-dir /w/gram/state", "-globus-job-dir /w/gram/state"} <= {*lines}
    assert "-x509-cert-dir /w/credentials/certificates" in lines
    assert "-log-pattern /w/gram/manager.log" in lines
    assert lines[-1] == "-save-logfile on_error"
    assert layout.longest_path == len("/w/gram/state/nobody/10/fork.ffffffff.sock")


def test_missing_programs_are_reported_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    texts = "\n".join(missing_programs({"gram"}))
    assert "apt-get install globus-gatekeeper" in texts
    assert "apt-get install globus-gram-job-manager" in texts
