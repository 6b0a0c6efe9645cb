"""What a Slurm is started with, and what is counted by its controller."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from plimsoll.deploy.counters.slurm import SlurmCounters
from plimsoll.deploy.programs import VARIABLE
from plimsoll.deploy.servers.jobs import slurm
from plimsoll.deploy.servers.needs import missing_programs

LAYOUT = slurm.Layout(Path("/w/batch-1"), "127.0.0.1", "me", 6817, (7001, 7002), 64)
REPORT = """\
Server thread count:  3
Agent queue size:     1
Jobs submitted: 12
Jobs started:   11
Jobs completed: 10
Jobs canceled:  2
Jobs failed:    1
Jobs pending:   4
Jobs running:   5
Main schedule statistics (microseconds):
\tTotal cycles: 20
Backfilling stats
\tTotal cycles: 99
Remote Procedure Call statistics by message type
\tREQUEST_SUBMIT_BATCH_JOB                ( 4003) count:10     ave_time:300    total_time:3000
\tREQUEST_STATS_INFO                      ( 2035) count:50     ave_time:100    total_time:5000
\tREQUEST_PARTITION_INFO                  ( 2009) count:2      ave_time:100    total_time:200
Remote Procedure Call statistics by user
\tme              (       0) count:62     ave_time:100    total_time:8200
"""


def test_the_report_of_the_controller_is_parsed_without_the_requests_of_the_reader() -> None:
    read = SlurmCounters(lambda: REPORT).read()
    assert read.counters == {
        "jobs_submitted": 12,
        "jobs_started": 11,
        "jobs_completed": 10,
        "jobs_canceled": 2,
        "jobs_failed": 1,
        "schedule_cycles": 20,
        "requests": 12,
        "request_us": 3200,
    }
    assert read.gauges == {"server_threads": 3, "agent_queue": 1, "jobs_pending": 4, "jobs_running": 5}


@pytest.mark.parametrize("report", ["", "slurm_load_stats: Unable to contact slurm controller"])
def test_another_text_is_no_reading(report: str) -> None:
    with pytest.raises(ValueError, match="sdiag reports no Jobs submitted"):
        SlurmCounters(lambda: report).read()


def test_all_files_of_a_cluster_are_in_its_directory() -> None:
    lines = slurm.configuration(LAYOUT, ["KillWait=9"]).splitlines()
    for line in ("StateSaveLocation=/w/batch-1/state", "SlurmdSpoolDir=/w/batch-1/%n", "SlurmctldPort=6817"):
        assert line in lines
    assert sum(line.startswith("NodeName=") for line in lines) == 2
    assert lines[-1] == "KillWait=9"
    assert [str(path) for path in LAYOUT.directories] == [
        f"/w/batch-1/{name}" for name in ("state", "n1", "n2")
    ]


def test_each_daemon_is_started_and_ends_the_others() -> None:
    words = slurm.command(LAYOUT, [Path("/usr/sbin") / name for name in slurm.DAEMONS])
    script = str(words[-1]).splitlines()
    started = [shlex.split(line.removesuffix(" &")) for line in script if line.startswith("run /")]
    assert [words[1] for words in started] == [
        f"/usr/sbin/{name}" for name in ("munged", "slurmctld", *["slurmd"] * 2)
    ]
    assert "--socket=/w/batch-1/munge.sock" in started[0]
    assert [words[-1] for words in started[2:]] == ["n1", "n2"]


def test_missing_programs_are_reported_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    texts = "\n".join(missing_programs({"slurm"}))
    assert "munge was not found" in texts and "apt-get install munge" in texts
    assert "apt-get install slurm-wlm" in texts
