"""The short form of an experiment file. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.design.cells import paths_overlap
from plimsoll.plan.source.document import KeyPath, dotted
from plimsoll.plan.source.units import NS, parse_duration, show_duration

WARMUP_NS: Final = 1 * NS["s"]
"""Maximum warm-up of a run in the short form."""
DURATION_NS: Final = 5 * NS["s"]
"""Maximum duration of a run, without its warm-up."""
STAGE_NS: Final = 2 * NS["s"]
"""Maximum length of a stage."""
SEARCH_NS: Final = 60 * NS["s"]
"""Time of a search."""
_HEADER: Final = re.compile(r"^# quick:(.*)$", re.MULTILINE)


def quick_sets(text: str, tree: Mapping[str, Any], varied: Collection[KeyPath], name: str) -> tuple[str, ...]:
    """The options of `--set` that shorten the experiment.

    A line `# quick: --set PATH=VALUE ...` of the file states them. Without it: one repetition, and at most
    `WARMUP_NS`, `DURATION_NS` and `STAGE_NS`. `varied`: paths that a factor sets, which remain as they are;
    `name`: of the file in messages. Raises BadInput if the line is malformed.
    """
    header = _HEADER.search(text)
    if header is not None:
        return _options(header[1], name, text.count("\n", 0, header.start()) + 1)
    limits = dict(_times(tree))
    if isinstance(tree.get("search"), Mapping):
        limits |= {("search", "repeat"): "1", ("search", "max_time"): show_duration(SEARCH_NS)}
    else:
        limits[("design", "repetitions")] = "1"
    return tuple(
        f"{dotted(path)}={value}"
        for path, value in limits.items()
        if not any(paths_overlap(path, other) for other in varied)
    )


def _options(written: str, name: str, line: int) -> tuple[str, ...]:
    try:
        words = shlex.split(written)
    except ValueError:
        words = [""]
    if not words or len(words) % 2 or any(word != "--set" for word in words[::2]):
        message = "expected `# quick: --set PATH=VALUE --set PATH=VALUE ...`"
        raise BadInput([Problem(message, file=name, line=line)])
    return tuple(words[1::2])


def _times(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    run = tree.get("run")
    run = run if isinstance(run, Mapping) else {}
    stages = dict(_stages(tree))
    for path, stage in stages.items():
        if _is_longer(stage, STAGE_NS):
            yield path, show_duration(STAGE_NS)
    if "warmup" in run and _is_longer(run["warmup"], WARMUP_NS):
        yield ("run", "warmup"), show_duration(WARMUP_NS)
    has_length = not stages and not isinstance(tree.get("search"), Mapping)
    if has_length and ("duration" not in run or _is_longer(run["duration"], DURATION_NS)):
        yield ("run", "duration"), show_duration(DURATION_NS)


def _stages(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Path and length of each stage, of one workload or of several."""
    loads: list[tuple[KeyPath, Any]] = [(("load",), tree.get("load"))]
    several = tree.get("workloads")
    if isinstance(several, Mapping):
        loads += [
            (("workloads", str(name), "load"), work.get("load"))
            for name, work in several.items()
            if isinstance(work, Mapping)
        ]
    for at, load in loads:
        stages = load.get("stages") if isinstance(load, Mapping) else None
        for index, stage in enumerate(stages if isinstance(stages, list) else ()):
            if isinstance(stage, Mapping):
                yield (*at, "stages", index, "for"), stage.get("for")


def _is_longer(written: object, limit_ns: int) -> bool:
    """Whether a duration is above the limit; True if it is only known later, such as `${vars.time}`."""
    try:
        return parse_duration(written) > limit_ns
    except ValueError:
        return True
