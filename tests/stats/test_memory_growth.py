"""The growth of memory with the number of testers, in simulated experiments with a known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.unit.analyse import made

from plimsoll.analyse.answer.components.memory import memory_sentence
from plimsoll.analyse.design.across import Design, grouped
from plimsoll.analyse.design.memory_growth import memory_growth
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.memory import GrowthVerdict, MemoryGrowth
from plimsoll.analyse.results.run import ComponentResources, Utilization
from plimsoll.analyse.results.run import TesterResult as OneTester

MB = 1e6


def run(
    number: int, testers: int, memory: float, *, limit: float | None = 512 * MB, free: float | None = None
) -> RunResult:
    detail = {} if limit is None else {"memory.limit": limit}
    host = Utilization(
        "host", "host", "cpu", 0.2, None, None, {} if free is None else {"memory.available": free}
    )
    return replace(
        made.run(f"{number:04}", cell={"load.testers": str(testers)}),
        utilization=(Utilization("db", "service", "cpu", 0.3, None, None, detail), host),
        components=(ComponentResources("db", own_memory=memory),),
        testers=tuple(OneTester("local", n, 10, 0, 1.0, 1.0, 1.0) for n in range(testers)),
        bottleneck_why=None,
    )


def growth(loads: list[int], memory: list[float], **keys: float | None) -> MemoryGrowth | None:
    runs = [run(n, load, used, **keys) for n, (load, used) in enumerate(zip(loads, memory, strict=True))]
    labels = list(dict.fromkeys(map(str, loads)))
    design = Design({"load.testers": labels}, "load.testers", {label: float(label) for label in labels})
    found = memory_growth(grouped(runs, {}, design), design)
    return found[0] if found else None


def test_an_exact_line_is_extended_to_the_limit() -> None:
    loads = [100, 200, 400, 800]
    found = growth(loads, [50 * MB + 0.094 * MB * load for load in loads])
    assert found is not None and found.full_at is not None
    assert found.verdict == GrowthVerdict.LINEAR
    assert abs(found.slope.mean - 0.094 * MB) < 1
    assert abs(found.full_at.mean - 462 / 0.094) < 1e-3
    assert memory_sentence(found) == (
        "The own memory of the service db grows by 94 kB per tester (94 kB to 94 kB); its limit, 512 MB, is full at "
        "about 4,910 testers (4,910 to 4,910) if it keeps this slope, extrapolated from at most 800."
    )


def test_the_memory_of_the_host_is_the_capacity_without_a_limit() -> None:
    found = growth([1, 2, 4, 8], [10 * MB, 11 * MB, 13 * MB, 17 * MB], limit=None, free=50 * MB)
    assert found is not None and found.full_at is not None
    assert found.of == "host"
    assert abs((found.capacity or 0) - 62.75 * MB) < 1
    unknown = growth([1, 2, 4, 8], [10 * MB, 11 * MB, 13 * MB, 17 * MB], limit=None)
    assert unknown is not None and unknown.full_at is None and unknown.capacity is None


def test_what_cannot_be_said_is_not_said() -> None:
    assert growth([1, 2], [10 * MB, 20 * MB]) is None
    flat = growth([1, 2, 4, 8], [50 * MB, 50.2 * MB, 49.9 * MB, 50.1 * MB])
    assert flat is not None and flat.verdict == GrowthVerdict.NONE
    three = growth([1, 2, 4], [10 * MB, 20.1 * MB, 39.9 * MB])
    assert three is not None and three.verdict == GrowthVerdict.UNTESTED and three.full_at is None
    curved = growth([10, 20, 40, 80, 160], [10 * MB + 0.01 * MB * n**2 for n in (10, 20, 40, 80, 160)])
    assert curved is not None and curved.verdict == GrowthVerdict.CURVED and curved.full_at is None
    far = growth([1, 2, 4, 8], [10 * MB, 11 * MB, 13 * MB, 17 * MB], limit=512e9)
    assert far is not None and far.verdict == GrowthVerdict.LINEAR and far.full_at is None
    full = growth([1, 2, 4, 8], [100 * MB, 200 * MB, 400 * MB, 500 * MB])
    assert full is not None and full.verdict == GrowthVerdict.UNTESTED, (
        "the run at 98 % of the limit is left out"
    )


def test_the_number_of_testers_at_which_memory_is_full_is_inside_its_interval_as_often_as_stated() -> None:
    rng = np.random.default_rng(20061)
    loads = [10, 10, 20, 20, 40, 40, 80, 80]
    stated = inside = curved = covered = 0
    for _ in range(200):
        memory = [50 * MB + 0.94 * MB * n + rng.normal(0, 2 * MB) for n in loads]
        found = growth(loads, memory)
        assert found is not None
        curved += found.verdict == GrowthVerdict.CURVED
        if found.full_at is not None:
            stated += 1
            assert found.full_at.low is not None and found.full_at.high is not None
            covered += (found.curved_low or 0) <= 492 <= (found.curved_high or np.inf)
            inside += found.full_at.low <= 462 / 0.94 <= found.full_at.high
    assert curved <= 0.1 * 200
    assert inside >= 0.92 * stated
    assert covered >= 0.92 * stated


def test_a_curve_that_is_not_detected_is_inside_the_wider_interval() -> None:
    rng = np.random.default_rng(20062)
    loads = [10, 10, 20, 20, 40, 40, 80, 80]
    bend = 0.94 * 0.25 / 160  # the slope at 80 testers is 1.25 times that at 0
    truth = (-0.94 + (0.94**2 + 4 * bend * 462) ** 0.5) / (2 * bend)
    stated = covered = 0
    for _ in range(200):
        memory = [50 * MB + (0.94 * n + bend * n**2) * MB + rng.normal(0, 2 * MB) for n in loads]
        found = growth(loads, memory)
        if found is not None and found.full_at is not None:
            stated += 1
            covered += (found.curved_low or 0) <= truth <= (found.curved_high or np.inf)
    assert stated > 100
    assert covered >= 0.92 * stated
