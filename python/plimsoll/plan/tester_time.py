"""When the testers of a ramp or of stages are active, and how many requests they start. Pure.

The engine decides the same (crate `schedule`, closed.rs and slots.rs). This module must produce the same counts.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from plimsoll.plan.model.cell import RampLoad, SlotRule, StagedLoad

GOLDEN: Final = 0x9E3779B97F4A7C15
"""2^64 / golden ratio, as in slots.rs."""
MAX_EXACT: Final = 10_000
"""Maximum number of testers whose slots are counted one by one."""
NEVER_NS: Final = 10**9 * 10**9
"""A time later than the end of any run."""

Period = tuple[int, int]
"""Start and end of a time in which a tester is active, ns."""


def last_join_ns(load: RampLoad) -> int:
    """When the last tester of a ramp joins."""
    return (load.testers - 1) * load.every_ns


def joined_by(load: RampLoad, end_ns: int) -> int:
    """How many testers of a ramp join before a time."""
    if end_ns <= 0:
        return 0
    return load.testers if load.every_ns == 0 else min(load.testers, -(-end_ns // load.every_ns))


def stage_periods(load: StagedLoad) -> list[Period]:
    """Start and end of each stage."""
    ends = list(accumulate(stage.for_ns for stage in load.stages))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def periods(load: RampLoad | StagedLoad, tester: int, end_ns: int) -> list[Period]:
    """The periods before `end_ns` in which a tester (from 0) is active, in order; each stage is one."""
    if isinstance(load, RampLoad):
        start = tester * load.every_ns
        found = [(start, NEVER_NS if load.life_ns is None else start + load.life_ns)]
    else:
        found = [
            period
            for stage, period in zip(load.stages, stage_periods(load), strict=True)
            if tester < (stage.testers or 0)
        ]
        if found and load.life_ns is not None:
            left = found[0][0] + load.life_ns
            found = [(start, min(end, left)) for start, end in found if start < left]
    return [(start, min(end, end_ns)) for start, end in found if start < end_ns]


def cohorts(load: StagedLoad) -> dict[int, int]:
    """The number of testers that have their first stage in each stage, by the index of the stage."""
    found: dict[int, int] = {}
    known = 0
    for index, stage in enumerate(load.stages):
        if (stage.testers or 0) > known:
            found[index] = (stage.testers or 0) - known
            known = stage.testers or 0
    return found


def active_pieces(load: StagedLoad) -> list[tuple[int, int, int, int]]:
    """The parts of the stages with testers in which their number is constant: index of the stage, start and end in ns,
    number of testers."""
    starts = stage_periods(load)
    joins = [(starts[index][0], count) for index, count in cohorts(load).items()]
    pieces = []
    for index, (stage, (start, end)) in enumerate(zip(load.stages, starts, strict=True)):
        if stage.rate is not None:
            continue
        leaves = set() if load.life_ns is None else {at + load.life_ns for at, _ in joins}
        edges = [start, *sorted(at for at in leaves if start < at < end), end]
        for low, high in pairwise(edges):
            pieces.append((index, low, high, _active(load, stage.testers or 0, joins, low)))
    return [piece for piece in pieces if piece[2] > piece[1]]


def _active(load: StagedLoad, testers: int, joins: list[Period], at_ns: int) -> int:
    """How many of the first `testers` testers are active at a time. `joins`: times and numbers of those that join."""
    active = first = 0
    for joined, count in joins:
        own = max(0, min(first + count, testers) - first)
        if joined <= at_ns and (load.life_ns is None or at_ns < joined + load.life_ns):
            active += own
        first += count
    return active


def tester_time_ns(load: RampLoad | StagedLoad, end_ns: int) -> int:
    """The sum of the times of all testers before `end_ns`."""
    if isinstance(load, StagedLoad):
        return sum(
            (min(end, end_ns) - start) * testers
            for _, start, end, testers in active_pieces(load)
            if start < end_ns
        )
    life = NEVER_NS if load.life_ns is None else load.life_ns
    joined = joined_by(load, end_ns)
    if load.every_ns == 0:
        return joined * min(life, end_ns)
    # Testers that join early enough stay for their life, the others to the end of the run.
    whole = min(joined, joined_by(load, end_ns - life + 1)) if life < end_ns else 0
    rest = joined - whole
    return whole * life + rest * end_ns - load.every_ns * (joined * (joined - 1) - whole * (whole - 1)) // 2


@lru_cache(maxsize=1024)
def slot_count(load: RampLoad | StagedLoad, slots: SlotRule, end_ns: int) -> int:
    """The number of slots of all testers before `end_ns`. Above MAX_EXACT testers it is that of their time."""
    testers = load.testers if isinstance(load, RampLoad) else sum(cohorts(load).values())
    if testers > MAX_EXACT:
        return tester_time_ns(load, end_ns) // slots.every_ns
    return sum(_slots_of(load, slots, tester, end_ns) for tester in range(testers))


def offset_ns(tester: int, every_ns: int) -> int:
    """The offset of the slots of a tester within the interval, so that those of the first testers are always spread."""
    return (tester * GOLDEN % 2**64) * every_ns >> 64


def _on_grid(earliest: int, offset: int, every_ns: int) -> int:
    return offset + max(0, -(-(earliest - offset) // every_ns)) * every_ns


def _slots_of(load: RampLoad | StagedLoad, slots: SlotRule, tester: int, end_ns: int) -> int:
    every, offset = slots.every_ns, offset_ns(tester, slots.every_ns)
    count = 0
    for start, end in periods(load, tester, end_ns):
        first = start if isinstance(load, RampLoad) else _on_grid(start, offset, every)
        second = _on_grid(start + every, offset, every) if isinstance(load, RampLoad) else first + every
        count += (first < end) + max(0, -(-(end - second) // every))
    return count
