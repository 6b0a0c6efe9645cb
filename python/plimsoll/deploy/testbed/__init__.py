"""Emulated hosts and links on this machine, for the rest of the lab.

::

    with up(load_testbed("wan.yaml")) as testbed:
        subprocess.run([*testbed.enter_argv(), "plimsoll", "run", "experiment.yaml"])

Name spaces and packets are the engine's (crates/wan); here are the files of ssh, messages, and who is up.
"""

from __future__ import annotations

from plimsoll.deploy.testbed.standing import Testbed, down, find, standing, up

__all__ = ["Testbed", "down", "find", "standing", "up"]
