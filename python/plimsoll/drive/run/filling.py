"""Fills the warm caches before a run. The engine sends the requests of `plan.filling`, and their results are
not kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from plimsoll.drive.carry_out import SilentListener, Watchman, carry_out
from plimsoll.drive.engine import EngineSession
from plimsoll.errors import EngineError, ServiceError
from plimsoll.plan import PlannedRun, engine_document
from plimsoll.plan.design.filling import fillings

LOST = ("agent-lost", "engine-lost")


def fill(
    run: PlannedRun,
    session: Callable[[], EngineSession],
    addresses: Mapping[str, Sequence[str]],
    scratch: Path,
    testers: Sequence[int],
    watchman: Watchman,
) -> str:
    """Sends the requests; returns a sentence for the events of the run, empty if there were none.

    Failed requests are only counted: the run shows whether they matter. Raises ServiceError if a service ends
    during this, and EngineError if the engine or its agent is lost.
    """
    sent = failed = 0
    troubles: dict[str, None] = {}
    configs = fillings(run.config)
    for config in configs:
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "segments").mkdir(parents=True)
        document = engine_document(
            replace(run, config=config), addresses, scratch.resolve(), "filling", tester_cpus=testers
        )
        end = carry_out(session(), document, watchman, SilentListener(), lambda *_: None)
        shutil.rmtree(scratch, ignore_errors=True)
        if end.status == "service-gone":
            raise ServiceError(end.reason)
        if end.status in LOST:
            raise EngineError(f"filling the caches failed: {end.reason}")
        if end.finished is not None:
            sent += end.finished.counters["started"]
            failed += end.finished.counters["failed"] + end.finished.in_flight
        if end.status != "done":
            troubles[end.reason] = None
    if not configs:
        return ""
    reasons = "".join(f"; {text}" for text in troubles if text)
    return f"the caches were filled with {sent} requests" + (f", {failed} failed" if failed else "") + reasons
