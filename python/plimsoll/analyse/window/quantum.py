"""The finest quantum of time over several clocks: ten times their bound."""

from __future__ import annotations

from plimsoll.analyse.window.transactions import Window

FINEST = 10
"""Minimum ratio of quantum and bound: at most a tenth of a quantum then falls on the wrong side of an edge, and
only for the agents with the worst clock."""
_STEPS = (1, 2, 5)


def coarse_enough(quantum_ns: int, bound_ns: int) -> int:
    """The quantum, or where ten times the bound is longer, the next of 1, 2, 5, 10, ... (ns) that is not shorter."""
    least = FINEST * bound_ns
    if quantum_ns >= least:
        return quantum_ns
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= least:
                return step * power
        power *= 10


def parts_of(window: Window, bound_ns: int, most: int) -> int:
    """Into how many equal parts the window may be cut: the greatest divisor of `most` that leaves each long enough."""
    room = most if bound_ns <= 0 else (window.end - window.start) // (FINEST * bound_ns)
    return max(
        number for number in range(1, most + 1) if most % number == 0 and (number <= room or number == 1)
    )
