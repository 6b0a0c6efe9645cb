"""A replay by the engine: the request, and its result as text."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll.analyse.results.wording import count, plural
from plimsoll.deploy.binary import find_engine
from plimsoll.errors import EngineError
from plimsoll.plan.source import units

FORMAT = "plimsoll.replay/1"
MIN_RUN_SHARE = 0.5
"""Share of tracing above which a time without it is reported as a range, as in `trace show`."""
PLANNED_WITHIN = 0.1
"""Share by which the planned duration of a replay may exceed that of the program without a warning."""
SHOWN = 12
"""Maximum number of findings and mismatches that are shown; the JSON contains all."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Options of a replay. `compressible` in percent; `flags`: options without a value."""

    trace: Path
    root: Path
    timing: str = "diff"
    scale: float = 1.0
    order: str = "resource"
    map: Path | None = None
    ignore: Path | None = None
    compressible: float = 0.0
    flags: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """The request as arguments of the engine."""
        words = ["--root", str(self.root), "--timing", self.timing, "--scale", str(self.scale)]
        words += ["--order", self.order, "--compressible", str(self.compressible)]
        words += [] if self.map is None else ["--map", str(self.map)]
        words += [] if self.ignore is None else ["--ignore", str(self.ignore)]
        return [*words, *(f"--{flag.replace('_', '-')}" for flag in self.flags), "--", str(self.trace)]


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """The JSON document that the engine printed: `is_cut`, `ignored`, and the requested parts of `check`, `prepared`,
    `replayed`, `cleaned`."""

    document: dict[str, Any]


def replay(request: ReplayRequest) -> ReplayOutput:
    """Runs the replay in the engine. Raises EngineError with the engine's message if it fails.

    The engine handles Ctrl-C: it stops the replay and reports the part that it completed.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.run([find_engine(), "replay", *request.words()], check=False, capture_output=True)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().removeprefix("plimsoll-engine: ")
        raise EngineError(message or f"the replay failed: the engine ended with status {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    replayed = document.get("replayed")
    if replayed is not None and replayed["format"] != FORMAT:
        raise EngineError(
            f"the engine answered in format {replayed['format']}, expected {FORMAT}: install both from one release"
        )
    return ReplayOutput(document)


def summary_text(output: ReplayOutput) -> str:
    """The result as text for a terminal."""
    lines: list[str] = []
    document = output.document
    if document["is_cut"]:
        lines.append("The trace is incomplete: its recording was interrupted. The recorded part is usable.")
    if "check" in document and "prepared" not in document:
        lines += _check(document["check"])
    if "prepared" in document:
        lines += _prepared(document["prepared"])
    if "replayed" in document:
        lines += _replayed(document["replayed"])
    if "cleaned" in document:
        lines += _cleaned(document["cleaned"])
    return "\n".join(lines)


def _check(check: dict[str, Any]) -> Iterator[str]:
    causes = check["causes"]
    if not causes:
        yield f"Nothing is missing: the directory is ready for {plural(check['events'], 'call')}."
    else:
        yield f"{plural(len(causes), 'path')} must change before the replay:"
        for cause in causes[:SHOWN]:
            yield f"  {cause['path']}: {_finding(cause)}"
        if len(causes) > SHOWN:
            yield f"  and {count(len(causes) - SHOWN)} more (--json lists all)"
        yield "To create what is missing, use --prepare."
    if check["unexplained"]:
        yield f"No state of the directory can reproduce {plural(check['unexplained'], 'call')}:"
        yield from (f"  {example['path']}: {example['why']}" for example in check["examples"][:SHOWN])


FINDINGS = {
    "must-not-exist": "must not exist: a call of the trace creates it, or reported it as missing",
    "not-readable": "cannot be read",
    "not-writable": "cannot be written",
    "not-searchable": "cannot be searched",
    "too-open": "too open: calls that the trace shows as refused would succeed here (root is never refused)",
    "not-empty": "the trace removes this directory, but it has contents that no call removes",
    "leaves": "a symbolic link that leads out of the directory, or in a loop",
    "shared-is-written": "the replay would change it, although jobs share it",
    "across-copies": "is moved between shared and private files",
}


def _finding(cause: dict[str, Any]) -> str:
    problem = cause["what"]
    if problem == "missing":
        size = f", {units.about_size(cause['size'])}" if cause["size"] else ""
        words = f"missing ({cause['kind']}{size})"
    elif problem == "too-small":
        words = f"too small: has {count(cause['has'])} B, needs {count(cause['needs'])} B"
    elif problem == "wrong-kind":
        words = f"is a {cause['is']}, but must be of another kind"
    else:
        words = FINDINGS.get(problem, problem)
    following = cause.get("consequences", 0)
    return f"{words}; {count(following)} more problems follow from it" if following else words


def _prepared(prepared: dict[str, Any]) -> Iterator[str]:
    grown = f", {count(prepared['grown'])} enlarged" if prepared["grown"] else ""
    removed = f", {count(prepared['removed'])} removed" if prepared["removed"] else ""
    yield f"Prepared: {count(prepared['made'])} created{grown}{removed}, {units.about_size(prepared['bytes'])}."
    if prepared["left"]:
        yield f"Not changed, because it was not created by --prepare: {plural(len(prepared['left']), 'path')}:"
        yield from (f"  {finding['path']}: {_finding(finding)}" for finding in prepared["left"][:SHOWN])


def _replayed(replayed: dict[str, Any]) -> Iterator[str]:
    if replayed["stopped"]:
        yield "The replay was stopped before its end."
    yield f"{replayed['wall_s']:.3f} s; as recorded {replayed['recorded_s']:.3f} s, {_untraced(replayed)}"
    yield from _planned(replayed)
    read, written = (units.about_size(replayed[f"{direction}_bytes"]) for direction in ("read", "write"))
    yield (
        f"{plural(replayed['performed'], 'call')} by {plural(replayed['threads'], 'thread')}; {read} read, "
        f"{written} written; {plural(replayed['ignored'], 'call')} on ignored names"
    )
    late = replayed["lateness"]
    if late["count"]:
        yield (
            f"lateness: p50 {late['p50_us']:.1f} us, p99 {late['p99_us']:.1f} us, max {late['max_us']:.1f} us"
        )
    yield from _calls(replayed["by_call"])
    yield from _deviations(replayed)


def _untraced(replayed: dict[str, Any]) -> str:
    """The duration without the cost of tracing. As in `trace show`, it is a range if tracing was most of the run,
    because the difference of two large numbers is too uncertain."""
    untraced = replayed["untraced_s"]
    wall, middle = replayed["wall_s"], untraced["middle_s"]
    low, high = (f"{untraced[end]:.3f}" for end in ("low_s", "high_s"))
    if middle < replayed["recorded_s"] * (1 - MIN_RUN_SHARE):
        return f"without the cost of tracing {low} to {high} s (tracing was most of it, so there is no single estimate)"
    ratio = f"; the replay took {wall / middle:.2f} times that" if middle > 0 else ""
    return f"without the cost of tracing {middle:.3f} s ({low} to {high}){ratio}"


def _planned(replayed: dict[str, Any]) -> Iterator[str]:
    untraced, planned = replayed["untraced_s"], replayed.get("planned_s", 0.0)
    keeps_think_times = isinstance(replayed.get("timing"), dict)
    if keeps_think_times and planned > untraced["middle_s"] * (1 + PLANNED_WITHIN):
        yield (
            f"The replay is planned to take {planned:.3f} s, longer than the program took without tracing: threads "
            "and processes that waited for each other also waited for the tracing of the others. "
            "To avoid this, record with --one-core or --source preload."
        )


def _calls(by_call: dict[str, Any]) -> Iterator[str]:
    calls = sorted(by_call.items(), key=lambda item: -float(item[1]["total_s"]))[:SHOWN]
    if calls:
        yield f"  {'call':<18}{'count':>10}{'bytes':>12}{'time, s':>10}{'recorded':>10}{'untraced':>10}{'p99, us':>10}"
    for name, call in calls:
        size = units.about_size(call["bytes"]) if call["bytes"] else "-"
        yield (
            f"  {name:<18}{count(call['count']):>10}{size:>12}{call['total_s']:>10.3f}{call['recorded_s']:>10.3f}"
            f"{call['untraced_s']:>10.3f}{call['times']['p99_us']:>10.1f}"
        )


def _deviations(replayed: dict[str, Any]) -> Iterator[str]:
    if replayed["is_faithful"]:
        yield "All results are those of the trace."
        return
    for mismatch in replayed["mismatches"][:SHOWN]:
        path = mismatch["examples"][0]["path"] if mismatch["examples"] else ""
        example = f" ({path})" if path else ""
        was, now = mismatch["recorded"], mismatch["got"]
        yield f"differs: {count(mismatch['count'])} x {mismatch['call']}: was {was}, is {now}{example}"
    for refusal in replayed["refusals"][:SHOWN]:
        example = f" ({refusal['examples'][0]})" if refusal["examples"] else ""
        yield f"refused: {count(refusal['count'])} x {refusal['call']}: {refusal['why']}{example}"
    if replayed["lost"]:
        why = "the call that opens it failed, or was not recorded"
        yield f"{plural(replayed['lost'], 'call')} had no open file: {why}"
    waits = replayed["waits"]
    if waits["let_go"]:
        yield f"{plural(waits['let_go'], 'call')} waited too long for other threads and continued without them"


def _cleaned(cleaned: dict[str, Any]) -> Iterator[str]:
    if not cleaned["was_prepared"]:
        yield "Nothing to remove: --prepare was not used here, so files that a replay created are unknown and remain."
        return
    yield f"Removed {plural(cleaned['removed'], 'name')}."
    if cleaned["left"]:
        yield f"Not removed: {plural(len(cleaned['left']), 'name')}:"
        yield from (f"  {remaining['path']}: {remaining['why']}" for remaining in cleaned["left"][:SHOWN])
