"""The shortest quantum of time for series over several clocks: ten times their bound."""

from __future__ import annotations

from plimsoll.analyse.window.transactions import Window

MIN_QUANTUM_RATIO = 10
"""Minimum ratio of quantum and bound: at most a tenth of a quantum then falls on the wrong side of an edge, and
only for the agents with the worst clock."""
_STEPS = (1, 2, 5)


def widened_quantum(quantum_ns: int, bound_ns: int) -> int:
    """The quantum (ns); if ten times the bound is longer, the least of 1, 2, 5, 10, ... that is at least as long."""
    least = MIN_QUANTUM_RATIO * bound_ns
    if quantum_ns >= least:
        return quantum_ns
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= least:
                return step * power
        power *= 10


def allowed_parts(window: Window, bound_ns: int, greatest: int) -> int:
    """The number of equal parts of a window: the greatest divisor of `most` for which each part is at least ten times
    the bound (ns) long, or 1."""
    max_parts = greatest if bound_ns <= 0 else (window.end - window.start) // (MIN_QUANTUM_RATIO * bound_ns)
    return max(
        number
        for number in range(1, greatest + 1)
        if greatest % number == 0 and (number <= max_parts or number == 1)
    )
