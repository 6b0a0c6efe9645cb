"""Time series of the components of a run: resources and counters, one value per quantum.

Part of the tree in `results`, under the same rules for names and units. Values have four significant digits, because
there are many of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Values = tuple[float | None, ...]
"""One value per quantum; None: not measured in it."""
ComponentKind = Literal["service", "watched", "host", "testers"]


@dataclass(frozen=True, slots=True)
class ComponentSeries:
    """The series of one component. A resource or counter that was not measured is absent.

    `resources`: means by name. `cpu`, `cpu_user`, `cpu_system`, `cpu_iowait`, `cpu_steal` are in cores, `memory` is in
    bytes, and `disk_read`, `disk_write`, `network_in`, `network_out` are in bytes per second. `run_queue`,
    `disk_queue`, `listen_queue` are numbers of tasks, requests and connections, `listen_drops`, `syn_retransmits`,
    `packet_drops` are events per second; any of these six that is 0 in the whole run is absent. `counters`: increases
    per second of the main counters, by the names of the service.
    """

    component: str
    """The name that the component has in `components` of the run."""
    kind: ComponentKind
    system: str
    """Kind of the service or of the watched system, such as postgres or node; empty for hosts and testers."""
    host: str
    """The host on which it was measured; empty: the host of the lab, or several hosts."""
    resources: dict[str, Values]
    counters: dict[str, Values]
    request_counter: str | None = None
    """The one of `counters` that counts requests or statements; None: there is none."""
    is_addressed: bool = False
    """Whether testers send their requests to it."""
    sessions: dict[str, Values] = field(default_factory=dict)
    """Of a database: mean numbers of active sessions by type of wait."""


@dataclass(frozen=True, slots=True)
class RunComponentSeries:
    """The series of the components of a run. Quantum number k is from k * `quantum_s` to (k + 1) * `quantum_s` seconds
    from the start of the run. All series have `bins` values."""

    quantum_s: float
    bins: int
    components: tuple[ComponentSeries, ...]
    left_out: int = 0
    """Number of further hosts, of those with only testers the least busy ones."""
