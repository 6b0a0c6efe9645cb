"""Modules that verbs import when they start."""

from __future__ import annotations

import subprocess
import sys


def test_showing_a_trace_does_not_import_the_experiment_runner() -> None:
    script = (
        "import sys, plimsoll.cli.traces.trace; print([each for each in sys.modules if each in sys.argv[1:]])"
    )
    heavy = ("plimsoll.api", "plimsoll.drive.experiment", "plimsoll.analyse.design.across")
    done = subprocess.run([sys.executable, "-c", script, *heavy], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
