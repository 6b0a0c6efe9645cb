"""The page of a trace: one self-contained HTML file, which loads nothing.

Names of files come from outside. Jinja escapes texts, `for_script` escapes the data, and the script writes only text. A
content security policy names the script by its hash and forbids everything else.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from markupsafe import Markup

from plimsoll import __version__
from plimsoll.analyse.results.wording import count, plural
from plimsoll.report import template
from plimsoll.report.page_data import for_script
from plimsoll.trace import engine, tables, words
from plimsoll.trace.page_data import page_data
from plimsoll.trace.pictures import Pictures
from plimsoll.trace.profile import Profile, ProfileDocument

PACKAGE: Final = "plimsoll.trace"
SCRIPTS: Final = ("numbers.js", "surface.js", "list.js", "requests.js", "pattern.js", "charts.js", "page.js")
MAX_PROCESSES: Final = 500
HISTOGRAMS: Final = (
    ("sizes", "Size of requests", "How many requests asked for how many bytes"),
    ("durations", "Duration of requests", "How many requests took how long"),
    ("speeds", "Speed of requests", "How many requests had how many bytes per second"),
)
DURATIONS: Final = "The cost of tracing is subtracted from durations where it is known."
CONTENTS: Final = (
    ("findings", "Findings"),
    ("run", "The run"),
    ("files", "Files"),
    ("one-file", "One file"),
    ("calls", "Calls"),
    ("processes", "Processes"),
    ("limits", "What this does not show"),
    ("terms", "Terms"),
)
TERMS: Final = (
    ("File", "All files that had the name one after another, over all opens, threads and processes."),
    (
        "Request",
        "A read or a write of a file, of any kind, that succeeded. Its bytes are those transferred, not requested.",
    ),
    (
        "Distinct, again",
        "Bytes of the file that were read (written) at least once; bytes that had been read (written) before.",
    ),
    (
        "Useless seek",
        "A seek that did not move the offset, or that no read or write at the offset followed before the next seek or "
        "the close.",
    ),
    ("In order", "Share of requests that began where the last one of the same open file ended."),
    (
        "Time",
        "Time in calls, over all threads; it can exceed the duration of the run. The cost of tracing is subtracted "
        "where it is known; if tracing was most of the run, a range replaces the number.",
    ),
    (
        "Binned",
        "If a file has too many requests to draw each of them, they are counted in cells of time and offset.",
    ),
)


def page_of(trace: Path, document: ProfileDocument, selection: engine.TraceSelection) -> str:
    """The page of a trace file as HTML. Raises EngineError."""
    return render(document, engine.pictures(trace, selection), shlex.quote(str(trace)))


def render(document: ProfileDocument, pictures: Pictures, trace: str) -> str:
    """The page as HTML. `trace`: the path of the trace, quoted for a shell."""
    profile = document.profile
    script = (
        '"use strict";\n(function () {\n'
        + "\n".join(template.asset(PACKAGE, name) for name in SCRIPTS)
        + "})();\n"
    )
    return template.page_template(PACKAGE, "trace.html").render(
        kind="trace",
        policy=template.policy(script),
        version=__version__,
        css=Markup(
            f"{template.asset(template.PACKAGE, 'report.css')}\n{template.asset(PACKAGE, 'trace.css')}"
        ),
        name=words.name(profile),
        command=words.command(profile.source),
        facts=" · ".join(words.facts(profile)),
        chosen=words.chosen(profile),
        not_understood=words.not_understood(profile.unparsed),
        findings=[finding.text for finding in profile.findings],
        took=f"Duration: {words.run_time(profile.time)}.",
        did=_did(profile),
        contents=CONTENTS,
        totals=tables.totals(profile),
        bursts=tables.bursts(profile),
        histograms=HISTOGRAMS,
        durations=tables.MOSTLY_TRACING if profile.time.interval_only else DURATIONS,
        calls=tables.calls(profile),
        failures=tables.failures(profile),
        missing=tables.missing(profile),
        processes=tables.processes(profile, MAX_PROCESSES),
        correction=words.correction(profile.source, profile.time),
        blind_spots=tables.blind_spots(profile),
        unplaced=_unplaced(pictures),
        examples=profile.unparsed.examples,
        source=tables.source(profile),
        terms=TERMS,
        made_from=trace,
        data=Markup(for_script(page_data(document, pictures, trace))),
        scripts=[Markup(script)],
    )


def _did(profile: Profile) -> str:
    all_ = profile.totals
    failed = f", {count(all_.failed_calls)} of which failed" if all_.failed_calls else ""
    who = f"{plural(all_.processes, 'process', 'processes')} with {plural(all_.threads, 'thread')}"
    return (
        f"{who} made {plural(all_.calls, 'call')}{failed}, used {plural(all_.files, 'file')}, "
        f"read {words.size(all_.read_bytes)} and wrote {words.size(all_.write_bytes)}."
    )


def _unplaced(pictures: Pictures) -> str:
    unknown = pictures.unknown_offsets
    if not unknown:
        return ""
    return f"The offset of {plural(unknown, 'request')} is unknown: the pictures leave them out."
