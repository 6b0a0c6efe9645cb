"""The experiment that follows the laws of a log: its file with comments, and one file of paths for each group.
Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from plimsoll.access_log.arrivals import Arrivals
from plimsoll.access_log.groups import Group
from plimsoll.access_log.model import LogModel
from plimsoll.access_log.popularity import Popularity
from plimsoll.access_log.sentences import describe_group, popularity_text, sentences
from plimsoll.access_log.sessions import Sessions
from plimsoll.analyse.results.wording import percent
from plimsoll.plan.queries.access_line import LineFormat

MAX_PATHS: Final = 50_000
"""Maximum number of paths of the experiment, which are part of every run. Less popular ones are left out."""
MAX_REPEATED: Final = 1000
"""Approximate number of lines of a file in which paths are repeated."""
WIDTH: Final = 110
PLAYED_S: Final = 600.0
"""Duration of the replayed day in the alternative with stages."""


@dataclass(frozen=True, slots=True)
class ExperimentFiles:
    """`text`: the experiment file; `paths`: the lines of each file of paths, by its name."""

    text: str
    paths: dict[str, tuple[bytes, ...]]


def experiment_files(
    model: LogModel, listed: tuple[bytes, ...], name: str, target: str, log: str, form: LineFormat
) -> ExperimentFiles:
    """The files. `listed`: paths of the objects; `name`: of the experiment, the first part of the names of its files;
    `target`: URL; `log`: path of the log as the experiment file can name it, relative to its directory."""
    room = MAX_PATHS // max(1, len(model.groups))
    paths = {f"{name}.{group.name}.txt": tuple(_lines(group, listed, room)) for group in model.groups}
    question = f"How does the target behave under the requests of {log}?".replace("${", "$${")
    lines = [
        *_header(model, name, log),
        "plimsoll: 1",
        f"name: {name}",
        f"question: {json.dumps(question)}",
        "",
        *_workload(model, name, target, room, log, form),
        "",
        *_load(model),
        "",
        "design: {repetitions: 2}         # one repetition has no interval",
        "run: {warmup: 5s, duration: 60s}",
    ]
    return ExperimentFiles("\n".join(lines) + "\n", paths)


def _lines(group: Group, listed: tuple[bytes, ...], room: int) -> Iterator[bytes]:
    """The paths by decreasing number of requests. Without a law, a path is repeated according to this number."""
    scale = min(1.0, MAX_REPEATED / group.requests)
    for at, number in zip(group.objects[:room], group.counts, strict=False):
        times = 1 if group.popularity is not None else max(1, round(float(number) * scale))
        yield from repeat(listed[at], times)


def _header(model: LogModel, name: str, log: str) -> Iterator[str]:
    yield from _comment(
        "Made by `plimsoll import access-log` from the requests of a log, and meant to be edited."
    )
    yield "#"
    yield f"#   plimsoll plan {name}.yaml"
    yield f"#   plimsoll run {name}.yaml"
    yield "#"
    for sentence in sentences(model, json.dumps(log)[1:-1]):
        yield from _comment(sentence)
    yield "#"
    yield from _comment(
        "Numbers in parentheses are 95 % intervals; docs/methods.md, section 13, describes the estimates."
    )


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def _workload(
    model: LogModel, name: str, target: str, room: int, log: str, form: LineFormat
) -> Iterator[str]:
    yield "workload:"
    yield "  driver: http"
    yield f"  target: {json.dumps(target)}"
    yield "  timeout: 60s"
    yield "  mix:                             # weights: numbers of requests in the log"
    for group in model.groups:
        method = "" if group.method == "GET" else f"method: {group.method}, "
        yield f'    - {{name: {group.name}, weight: {group.requests}, {method}path: "{{{group.name}}}"}}'
    yield "  values:                          # line k of a file is requested with a probability proportional to k^-s"
    for group in model.groups:
        yield from _values(group, name, room)
    yield "  # To repeat the requests of the log themselves, in their order, use this instead of mix and values:"
    yield f"  # http: {{from_log: {{file: {json.dumps(log)}, as: replay, speed: 1.0{_form(form)}}}}}"
    yield "  # with `load: {replay: log}`. With `as: set`, requests are drawn with their frequencies."


def _form(form: LineFormat) -> str:
    parts = [] if form.name == "auto" else [f"format: {form.name}"]
    if form.text:
        parts.append(f"format: {json.dumps(form.text, ensure_ascii=False).replace('${', '$${')}")
    if form.duration is not None:
        parts.append(f"duration: {form.duration}")
    return "".join(f", {part}" for part in parts)


def _values(group: Group, name: str, room: int) -> Iterator[str]:
    for line in _comment(f"{describe_group(group)}: {popularity_text(group.popularity)}."):
        yield f"    {line}"
    if group.objects.size > room:
        share = float(group.counts[room:].sum()) / group.requests
        yield from (
            f"    {line}"
            for line in _comment(
                f"The file has the {room:,} most popular of {group.objects.size:,} paths; the others have "
                f"{percent(share, 2)} of the requests."
            )
        )
    law = group.popularity
    if law is None:
        yield from (f"    {line}" for line in _comment("Each path is repeated according to its requests."))
        yield f"    {group.name}: {{file: {name}.{group.name}.txt, order: random}}"
        return
    yield f"    {group.name}: {{file: {name}.{group.name}.txt, order: zipf, s: {law.exponent.mean:.3f}}}"
    if law.law_objects > group.objects.size:
        yield from (f"    {line}" for line in _unseen(group, law))


def _unseen(group: Group, law: Popularity) -> list[str]:
    return _comment(
        "Objects without a request in the log are not in the file. For a target with numbered objects, use "
        f"{{zipf: {{n: {law.law_objects}, s: {law.exponent.mean:.3f}}}}} and a path such as "
        f"/object/{{{group.name}}}."
    )


def _load(model: LogModel) -> Iterator[str]:
    found = model.arrivals
    if found is None:
        yield "# The log has too few requests for an arrival law."
        yield "load: {testers: 1, think: 0s}"
        return
    rate = max(found.rate.mean, 1e-6)
    if found.law in ("poisson", "unknown"):
        reason = "agree with" if found.law == "poisson" else "are too few to be tested against"
        yield f"# The arrivals {reason} a Poisson process. If all slots (in_flight) are used, requests wait."
    elif found.law == "clustered":
        yield from _comment(
            "The arrivals of the log are burstier than this Poisson process. `from_log` with `as: replay` repeats "
            "their bursts."
        )
    else:
        yield "# The arrivals of the log are more even than this Poisson process."
    yield f"load: {{rate: {rate:.6g}/s, arrivals: poisson, in_flight: 200, when_full: wait}}"
    yield from _stages(found)
    yield from _closed(model.sessions)
    if found.parts:
        top = max(found.parts)
        yield "# Mean rate, and rate of the busiest twelfth of the log:"
        yield f"# factors: {{rate: {{path: load.rate, levels: [{rate:.4g}/s, {top:.4g}/s]}}}}"


def _stages(found: Arrivals) -> Iterator[str]:
    if found.constant_p is None or found.constant_p >= 0.01 or min(found.parts) <= 0:
        return
    played = min(PLAYED_S, found.span_s)
    each = max(1, round(played / len(found.parts)))
    stages = ", ".join(f"{{for: {each}s, rate: {part:.4g}/s}}" for part in found.parts)
    yield "# The rate of twelfths of the log, in a shorter time (then without `duration`):"
    yield f"# load: {{in_flight: 200, stages: [{stages}]}}"


def _closed(found: Sessions | None) -> Iterator[str]:
    if found is None or found.think_s is None or found.think_s <= 0:
        return
    testers = max(1, round(found.concurrent))
    yield "# Closed: the sessions of the log as testers, which wait for the answer before they think:"
    yield f"# load: {{testers: {testers}, think: {{exponential: {max(1, round(found.think_s * 1000))}ms}}}}"
