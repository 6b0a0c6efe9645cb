"""Modules that verbs import when they start."""

from __future__ import annotations

import subprocess
import sys


def imported(module: str, *heavy: str) -> str:
    """The list of those modules of `heavy` that an interpreter has loaded after importing `module`."""
    script = f"import sys, {module}; print([each for each in sys.argv[1:] if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script, *heavy], check=True, capture_output=True, text=True)
    return done.stdout


def test_showing_a_trace_does_not_import_the_experiment_runner() -> None:
    heavy = ("plimsoll.api", "plimsoll.drive.experiment", "plimsoll.analyse.design.across")
    assert imported("plimsoll.cli.traces.trace", *heavy) == "[]\n"


def test_a_run_does_not_wait_for_half_a_second_of_imports_of_scipy_stats() -> None:
    assert imported("plimsoll.cli.experiments.run", "scipy.stats", "scipy.special") == "['scipy.special']\n"
