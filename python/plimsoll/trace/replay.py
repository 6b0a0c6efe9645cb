"""A replay by the engine: what is asked, and its answer in words."""

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
"""Share of tracing from which on a time without it is told as a range, as in `trace show`."""
PLANNED_WITHIN = 0.1
"""Share by which a replay may be planned longer than the program took, without a word."""
SHOWN = 12
"""Findings and mismatches that are shown; all are in the JSON."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """`compressible` in percent; `flags`: options without a value."""

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
        """As the engine takes it."""
        words = ["--root", str(self.root), "--timing", self.timing, "--scale", str(self.scale)]
        words += ["--order", self.order, "--compressible", str(self.compressible)]
        words += [] if self.map is None else ["--map", str(self.map)]
        words += [] if self.ignore is None else ["--ignore", str(self.ignore)]
        return [*words, *(f"--{flag.replace('_', '-')}" for flag in self.flags), "--", str(self.trace)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine printed: `is_cut`, `ignored`, and what was asked for of `check`, `prepared`,
    `replayed`, `cleaned`."""

    document: dict[str, Any]


def replay(asked: ReplayRequest) -> Answer:
    """Has the engine do it. Raises EngineError with its words where it fails.

    A Ctrl-C is the engine's: it stops, and tells how far it came.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.run([find_engine(), "replay", *asked.words()], check=False, capture_output=True)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().removeprefix("plimsoll-engine: ")
        raise EngineError(said or f"the replay ended with {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    replayed = document.get("replayed")
    if replayed is not None and replayed["format"] != FORMAT:
        raise EngineError(f"the engine answers in {replayed['format']}, and {FORMAT} is expected")
    return Answer(document)


def in_words(answer: Answer) -> str:
    """For a terminal."""
    lines: list[str] = []
    document = answer.document
    if document["is_cut"]:
        lines.append("The trace has no end: its recording was broken off. What is there is whole.")
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
        yield f"Nothing is missing for {plural(check['events'], 'call')}."
    else:
        keep = "keeps" if len(causes) == 1 else "keep"
        yield f"{plural(len(causes), 'thing')} {keep} the replay from doing what the trace did:"
        for cause in causes[:SHOWN]:
            yield f"  {cause['path']}: {_finding(cause)}"
        if len(causes) > SHOWN:
            yield f"  and {count(len(causes) - SHOWN)} more (--json has all)"
        yield "Make them with --prepare."
    if check["unexplained"]:
        yield f"No state of the directory explains {plural(check['unexplained'], 'call')}:"
        yield from (f"  {one['path']}: {one['why']}" for one in check["examples"][:SHOWN])


FINDINGS = {
    "must-not-exist": "must not be there: a call has made it, or was told that it is not",
    "not-readable": "cannot be read",
    "not-writable": "cannot be written",
    "not-searchable": "cannot be searched",
    "too-open": "calls were refused, and would not be here (root is never refused)",
    "not-empty": "was removed, and holds what no call has removed",
    "leaves": "a link that leads out of the directory, or in circles",
    "shared-is-written": "would be changed although jobs share it",
    "across-copies": "is moved between what is shared and what is not",
}


def _finding(cause: dict[str, Any]) -> str:
    what = cause["what"]
    if what == "missing":
        size = f", {units.about_size(cause['size'])}" if cause["size"] else ""
        words = f"missing ({cause['kind']}{size})"
    elif what == "too-small":
        words = f"has {count(cause['has'])} B, and {count(cause['needs'])} B are needed"
    elif what == "wrong-kind":
        words = f"is a {cause['is']}, and must be something else"
    else:
        words = FINDINGS.get(what, what)
    following = cause.get("consequences", 0)
    return f"{words}; {count(following)} more follow from it" if following else words


def _prepared(prepared: dict[str, Any]) -> Iterator[str]:
    grown = f", {count(prepared['grown'])} made larger" if prepared["grown"] else ""
    removed = f", {count(prepared['removed'])} removed" if prepared["removed"] else ""
    yield f"Prepared: {count(prepared['made'])} made{grown}{removed}, {units.about_size(prepared['bytes'])}."
    if prepared["left"]:
        yield f"Left as it was, and not ours to change: {plural(len(prepared['left']), 'thing')}:"
        yield from (f"  {finding['path']}: {_finding(finding)}" for finding in prepared["left"][:SHOWN])


def _replayed(replayed: dict[str, Any]) -> Iterator[str]:
    if replayed["stopped"]:
        yield "Stopped before its end."
    yield f"{replayed['wall_s']:.3f} s; as recorded {replayed['recorded_s']:.3f} s, {_untraced(replayed)}"
    yield from _planned(replayed)
    read, written = (units.about_size(replayed[f"{what}_bytes"]) for what in ("read", "write"))
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
    """As `trace show` says it: where tracing was most of the run, the difference of two large numbers is no number."""
    untraced = replayed["untraced_s"]
    wall, middle = replayed["wall_s"], untraced["middle_s"]
    low, high = (f"{untraced[end]:.3f}" for end in ("low_s", "high_s"))
    if middle < replayed["recorded_s"] * (1 - MIN_RUN_SHARE):
        return f"without the cost of tracing {low} to {high} s; tracing was most of it, so that no one number is known"
    ratio = f": {wall / middle:.2f} of it" if middle > 0 else ""
    return f"without the cost of tracing {middle:.3f} s ({low} to {high}){ratio}"


def _planned(replayed: dict[str, Any]) -> Iterator[str]:
    untraced, planned = replayed["untraced_s"], replayed.get("planned_s", 0.0)
    keeps_think_times = isinstance(replayed.get("timing"), dict)
    if keeps_think_times and planned > untraced["middle_s"] * (1 + PLANNED_WITHIN):
        yield (
            f"The replay aims at {planned:.3f} s, longer than the program took without tracing: threads and processes "
            "that waited for each other waited for the tracing of the others, too. "
            "Record with --one-core or --source preload"
        )


def _calls(by_call: dict[str, Any]) -> Iterator[str]:
    calls = sorted(by_call.items(), key=lambda one: -float(one[1]["total_s"]))[:SHOWN]
    if calls:
        yield f"  {'call':<18}{'count':>10}{'bytes':>12}{'time, s':>10}{'recorded':>10}{'untraced':>10}{'p99, us':>10}"
    for name, one in calls:
        size = units.about_size(one["bytes"]) if one["bytes"] else "-"
        yield (
            f"  {name:<18}{count(one['count']):>10}{size:>12}{one['total_s']:>10.3f}{one['recorded_s']:>10.3f}"
            f"{one['untraced_s']:>10.3f}{one['times']['p99_us']:>10.1f}"
        )


def _deviations(replayed: dict[str, Any]) -> Iterator[str]:
    if replayed["is_faithful"]:
        yield "Every result is that of the trace."
        return
    for one in replayed["mismatches"][:SHOWN]:
        found = one["examples"][0]["path"] if one["examples"] else ""
        example = f" ({found})" if found else ""
        yield f"differs: {count(one['count'])} x {one['call']}: was {one['recorded']}, is {one['got']}{example}"
    for one in replayed["refusals"][:SHOWN]:
        example = f" ({one['examples'][0]})" if one["examples"] else ""
        yield f"refused: {count(one['count'])} x {one['call']}: {one['why']}{example}"
    if replayed["lost"]:
        why = "what should have opened it has failed, or was not recorded"
        yield f"{plural(replayed['lost'], 'call')} had no open file: {why}"
    waits = replayed["waits"]
    if waits["let_go"]:
        yield f"{plural(waits['let_go'], 'call')} waited too long for others and went on without them"


def _cleaned(cleaned: dict[str, Any]) -> Iterator[str]:
    if not cleaned["was_prepared"]:
        yield "Nothing was prepared here: what a replay has made without --prepare is not known, and stays."
        return
    yield f"Removed {plural(cleaned['removed'], 'name')}."
    if cleaned["left"]:
        yield f"Left: {plural(len(cleaned['left']), 'name')}:"
        yield from (f"  {one['path']}: {one['why']}" for one in cleaned["left"][:SHOWN])
