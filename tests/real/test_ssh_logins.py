"""Login shells that print text of their own: the link begins after it, with and without a final newline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Lab
from tests.real.sshd import running_sshd
from tests.real.test_hosts_faults import experiment, started_by, summary_of

RUN = 'exec sh -c "$SSH_ORIGINAL_COMMAND"'
LATE = 'case "$SSH_ORIGINAL_COMMAND" in *attach*) exit 3 ;; esac'


@pytest.mark.parametrize(
    "banner",
    [
        pytest.param("echo Welcome", marks=pytest.mark.long),
        pytest.param("printf x", id="without a final newline", marks=pytest.mark.long),
        pytest.param("cat /etc/services; printf plimsoll", id="long, and our own word last"),
        pytest.param("head -c 5000 /dev/urandom", marks=pytest.mark.long),
    ],
)
def test_a_run_over_logins_that_print(tmp_path: Path, lab: Lab, banner: str) -> None:
    with running_sshd(tmp_path / "sshd", f"ForceCommand {banner}; {RUN}") as sshd:
        done = lab.run("run", experiment(sshd, lab.directory, 1))
        assert done.code == 0, done.out + done.err
        summary = summary_of(lab.results())
        assert summary["balanced"]
        assert all(started_by(summary, host) > 20 for host in ("h1", "h2", "h3"))


def test_a_login_that_prints_and_ends_is_quoted(tmp_path: Path, lab: Lab) -> None:
    with running_sshd(tmp_path / "sshd", f"ForceCommand echo Welcome; {LATE}; {RUN}") as sshd:
        done = lab.run("run", experiment(sshd, lab.directory, 1))
        said = " ".join((done.out + done.err).split())
        assert done.code != 0
        assert 'no agent answered; its login printed "Welcome"' in said, said
