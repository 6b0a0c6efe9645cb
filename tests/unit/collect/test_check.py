"""Problems that `plimsoll check` reports in a results directory."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest
from tests.unit.versioned import WAYS, make_results, simulated

from plimsoll.cli.results import check as command
from plimsoll.collect.check import check
from plimsoll.collect.results import open_results


def test_a_directory_that_was_removed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = simulated(WAYS["1 s"], 1.0, 1.0, 1)
    results = make_results(tmp_path / "made", [({"way": str(at)}, rows) for at in range(4)])
    assert not any(finding.missing for finding in check(open_results(results)))
    shutil.rmtree(results / "runs" / "0002")
    assert [finding.run for finding in check(open_results(results)) if finding.missing] == ["0002"]
    assert command.main(argparse.Namespace(directory=results)) == 1
    assert "3 of 4 runs, run 0002 is missing, " in capsys.readouterr().out


def test_runs_that_are_to_come_are_not_missing(tmp_path: Path) -> None:
    rows = simulated(WAYS["1 s"], 1.0, 1.0, 1)
    results = make_results(tmp_path / "made", [({"way": str(at)}, rows) for at in range(4)])
    shutil.rmtree(results / "runs" / "0004")
    assert not any(finding.missing for finding in check(open_results(results)))
