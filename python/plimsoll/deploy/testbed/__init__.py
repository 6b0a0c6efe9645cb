"""Emulated hosts and links on this machine, for the rest of the lab.

::

    with up(load_testbed("wan.yaml")) as testbed:
        subprocess.run([*testbed.enter_argv(), "plimsoll", "run", "experiment.yaml"])

The engine handles namespaces and packets (crates/wan). This package writes the files of ssh, creates messages
and lists the running testbeds.
"""

from __future__ import annotations

from plimsoll.deploy.testbed.standing import Testbed, down, find, running_testbeds, up

__all__ = ["Testbed", "down", "find", "running_testbeds", "up"]
