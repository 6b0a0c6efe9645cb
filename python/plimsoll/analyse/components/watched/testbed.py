"""Links of a testbed: their utilization, that of the process that emulates them, and its late packets."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plimsoll.analyse.components.watched.steps import Array, WindowSteps
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR


def testbed_links(readings: WatchedReadings, steps: WindowSteps) -> list[Utilization]:
    """For each link its busier direction, as the share of its rate that passed. Bytes count with all headers."""
    busiest: dict[str, Utilization] = {}
    for name in steps.names("passed "):
        link, _, direction = name.removeprefix("passed ").partition(": ")
        share = steps.share(name, steps.width * steps.levels(f"rate {link}: {direction}"))
        if steps.mean(share) is None:
            continue
        used = Utilization(
            f"link {link}", "link", direction, *steps.utilization(share), {}, "", ResourceKind.OTHER
        )
        if used.component not in busiest or used.mean > busiest[used.component].mean:
            busiest[used.component] = used
    return list(busiest.values())


def emulator(steps: WindowSteps) -> Utilization | None:
    """The CPU of the process that emulates the links: with a full core it forwards no more. None if its CPU time was
    not read."""
    cpu = emulator_cpu(steps)
    if cpu is None:
        return None
    used = steps.utilization(steps.share("cpu", steps.width))
    kind = ResourceKind.CPU_OF_PROCESS
    return Utilization(EMULATOR, "emulator", "cpu of its process", *used, {"cores_used": cpu}, "", kind)


def emulator_cpu(steps: WindowSteps) -> float | None:
    """Mean of the cores that the process used."""
    return steps.mean(steps.share("cpu", steps.width))


def emulator_cores(watched: Iterable[WatchedReadings], seconds: range) -> Array:
    """Cores that the process that emulates the links of a testbed used in each of these seconds of the run; 0 where its
    CPU time was not read. Between two readings the time is taken to increase evenly."""
    edges = np.arange(seconds.start, seconds.stop + 1, dtype=np.float64)
    for readings in watched:
        if readings.kind == "testbed" and "cpu" in readings.values:
            return np.diff(np.interp(edges, readings.t_s, readings.values["cpu"]))
    return np.zeros(len(seconds))


def late_packets(watched: Iterable[WatchedReadings], window: Window) -> tuple[float, float] | None:
    """Numbers of packets that the links of the testbed delivered in the window: those more than 1 ms after their due
    time, and all. None if they were not read."""
    for readings in watched:
        if readings.kind == "testbed":
            steps = WindowSteps(readings, window)
            late, delivered = steps.total("late"), steps.total("released")
            return None if late is None or delivered is None else (late, delivered)
    return None
