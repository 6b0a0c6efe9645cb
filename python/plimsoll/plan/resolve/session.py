"""Resolves `session:` of a workload."""

from __future__ import annotations

from typing import Final

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.session import DRIVERS, Session
from plimsoll.plan.resolve.load import distribution
from plimsoll.plan.schema.experiment import RunRaw
from plimsoll.plan.schema.session import SessionRaw
from plimsoll.plan.source.document import KeyPath

_NEEDED: Final = (
    "a session needs testers that begin it a think time after the last one, such as `testers: 17`"
)


def resolve_session(raw: SessionRaw) -> Session:
    """The session as the engine carries it out."""
    low, high = sorted((raw.queries.low, raw.queries.high))
    return Session(tuple(raw.start or ()), distribution(raw.compute), raw.busy, low, high)


def check_session(work: model.Workload, run: RunRaw, at: KeyPath, load_at: KeyPath, context: Context) -> None:
    """Reports drivers, loads and ends of a run that sessions do not have."""
    if work.session is None:
        return
    if work.driver not in DRIVERS:
        context.wrong(
            (*at, "session"),
            f"the driver {work.driver} has no sessions; those that have are {' and '.join(DRIVERS)}",
        )
    if run.until is not None:
        context.wrong(("run", "until"), "sessions have no count that ends a run: give duration instead")
    match work.load:
        case model.ClosedLoad() | model.RampLoad(slots=None):
            pass
        case model.StagedLoad(slots=None) if all(stage.rate is None for stage in work.load.stages):
            pass
        case model.PeriodicLoad() | model.RampLoad() | model.StagedLoad(slots=model.SlotRule()):
            context.wrong((*load_at, "every"), f"{_NEEDED}; remove every")
        case model.StagedLoad():
            context.wrong((*load_at, "stages"), f"{_NEEDED}; give each stage testers instead of a rate")
        case _:
            context.wrong(load_at, f"{_NEEDED}, not an open load")
