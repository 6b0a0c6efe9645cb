"""The laws of an access log together. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from plimsoll.access_log.arrivals import Arrivals, arrivals
from plimsoll.access_log.groups import Group, columns, groups
from plimsoll.access_log.sessions import Sessions, sessions
from plimsoll.access_log.sizes import Sizes, sizes
from plimsoll.plan.queries.access_log import AccessLog, LineCounts

SEED: Final = 1
"""Of the simulations: the same log has the same estimates."""


@dataclass(frozen=True, slots=True)
class LogModel:
    """What a log shows. A part is None if the log does not support it. `hosts`: number of hosts that the log names;
    `grain_s`: resolution of its times."""

    counts: LineCounts
    groups: tuple[Group, ...]
    arrivals: Arrivals | None
    sizes: Sizes | None
    sessions: Sessions | None
    objects: int
    hosts: int
    grain_s: float


def model_of(log: AccessLog, objects: int | None = None) -> LogModel:
    """The laws of a log. `objects`: number of objects of the site, if it is known."""
    rng = np.random.default_rng(SEED)
    object_of, is_head = columns(log)
    start = np.array(log.start_ns, dtype=np.int64)
    size = np.array(log.size, dtype=np.int64)
    return LogModel(
        log.counts,
        groups(object_of, is_head, log.paths, rng, objects),
        arrivals(start, log.grain_ns),
        sizes(object_of, size, is_head, len(log.paths)),
        sessions(
            start,
            np.array(log.duration_ns, dtype=np.int64),
            np.array(log.client, dtype=np.int64),
            log.grain_ns,
        )
        if log.clients
        else None,
        len(log.paths),
        len(set(log.hosts)),
        log.grain_ns / 1e9,
    )
