"""The summary at the end of a run, as lines of text, in the order that k6's users know. Pure: nothing is printed here.

In colour the lines carry ANSI colours and Unicode signs; without, they are plain ASCII apart from names that people
gave. Control characters in such names are shown, never sent to the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.answer.compose import shown_answer, so_far
from plimsoll.analyse.answer.ramp import load_words
from plimsoll.analyse.components.utilization_hosts import TESTERS_HOST
from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.run import Ecdf, Traffic
from plimsoll.analyse.results.verdicts import Topic
from plimsoll.analyse.results.wording import (
    SPACE,
    UNKNOWN,
    bottleneck_word,
    count,
    listing,
    number,
    percent,
    percentile,
    plural,
    plus_minus,
    quantity,
)
from plimsoll.analyse.run.validity import is_lower_bound
from plimsoll.printable import printable
from plimsoll.report import consistency, hosts, ramp
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.table import Column
from plimsoll.report.tables import cohort_counts, error_kind, milliseconds, operation_name, verdict_text

MAX_WATCHED: Final = 8
"""Hosts of targets, and processes on them, that are shown."""
NARROWEST: Final = 40
MIN_TEXT: Final = 10
"""Columns that a text of a table keeps at least."""
SHOWN_TIMES: Final = (
    ("med", "p50"),
    ("p(90)", "p90"),
    ("p(95)", "p95"),
    ("p(99)", "p99"),
    ("p(99.9)", "p999"),
    ("max", "max"),
)
MAX_ROWS: Final = 40
"""Lines of the table of cells; the report has them all."""
MAX_SUPERSEDED: Final = 10
"""Verdicts that newer rules state otherwise; analysis.json and the report have them all."""
HISTOGRAM_ROWS: Final = 10
PLAIN: Final = {
    "\u202f": SPACE,
    "±": "+/-",
    "µ": "u",
    "×": "x",
    "–": "-",
    "≥": ">=",
    "∞": "inf",
    "·": "|",
    "✓": "ok",
    "✗": "FAILED",
    "≤": "<=",
    "■": "#",
    "²": "^2",
    "Σ": "sum ",
}
COLOURS: Final = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Style:
    """How lines are made: their width in columns, and whether colour and Unicode are welcome."""

    width: int
    colour: bool

    def text(self, text: str) -> str:
        """A text for the terminal: without control characters, and with signs in ASCII if required."""
        return self._held(text).replace(SPACE, " ")

    def _held(self, text: str) -> str:
        """The same with no-break spaces, at which a line is not broken."""
        safe = printable(text)
        if self.colour:
            return safe.replace("\u202f", SPACE)
        return "".join(PLAIN.get(sign, sign) for sign in safe)

    def _broken(self, text: str, indent: str, hang: str) -> list[str]:
        lines = textwrap.wrap(
            self._held(text),
            self.width,
            initial_indent=indent,
            subsequent_indent=hang,
            break_on_hyphens=False,
        )
        return [line.replace(SPACE, " ") for line in lines]

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour, where colours are welcome."""
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.colour and text else text

    def wrapped(self, text: str, indent: str = "  ", hang: str = "  ") -> list[str]:
        """The text broken at the width."""
        return self._broken(text, indent, hang) or [indent.rstrip()]

    def pair(self, name: str, value: str) -> list[str]:
        """`name....: value`, as k6 writes it."""
        head = f"  {self.text(name)}".ljust(20, ".") + ": "
        return self._broken(value, head, " " * 22) or [head.rstrip()]


def summary_lines(
    analysis: Analysis,
    width: int = 80,
    colour: bool = False,
    *,
    files: Sequence[str] = (),
    quiet: bool = False,
) -> list[str]:
    """The summary: verdicts, totals, latency, errors, testers, cells, answer, files written. `quiet`: the answer and
    what failed.

    A single run also has a histogram of its response time. `width`: columns of the terminal, at least 40.
    """
    style = Style(max(width, NARROWEST), colour)
    labels = Labels(analysis)
    single = analysis.runs[0] if len(analysis.runs) == 1 else None
    blocks: list[list[str]] = [_head(style, labels)]
    blocks.append(_verdicts(style, labels, only_failed=quiet))
    if not quiet:
        if single is not None:
            blocks += [
                _totals(style, single),
                [*_latency(style, single), *_connections(style, single)],
                _parts(style, single),
                _histogram(style, single),
                _errors(style, [single]),
            ]
            blocks.append(_ramp(style, single))
            blocks.append(_testers(style, single))
            blocks.append(_hosts(style, single))
        elif analysis.runs:
            blocks += [_all_totals(style, analysis), _cells(style, labels), _errors(style, analysis.runs)]
        blocks.append(_readers(style, labels))
    blocks.append(_answer(style, labels))
    blocks.append(_superseded(style, analysis))
    if files and not quiet:
        blocks.append([line for name in files for line in style.pair("written", name)])
    lines: list[str] = []
    for block in blocks:
        if block:
            lines += ([""] if lines else []) + block
    return lines


def failed_lines(analysis: Analysis, width: int = 80, colour: bool = False) -> list[str]:
    """Only what decides the exit code: thresholds that failed, and the reason where no run is valid."""
    style = Style(max(width, NARROWEST), colour)
    lines = _verdicts(style, Labels(analysis), only_failed=True)
    nothing = [each.text for each in analysis.findings if each.topic == Topic.NOTHING]
    return lines + [line for text in nothing for line in style.wrapped(text)]


def _head(style: Style, labels: Labels) -> list[str]:
    info = labels.analysis.experiment
    title = info.name if not info.question else f"{info.name}: {info.question}"
    lines = [style.paint(line, "bold") for line in style.wrapped(title)]
    unfinished = so_far(labels.analysis)
    return lines + ([style.paint(line, "warn") for line in style.wrapped(unfinished)] if unfinished else [])


def _verdicts(style: Style, labels: Labels, *, only_failed: bool) -> list[str]:
    lines = []
    for each in labels.analysis.verdicts:
        if only_failed and (each.passed or not each.judged):
            continue
        sign, colour = ("✓", "good") if each.passed else ("✗", "bad") if each.judged else (UNKNOWN, "dim")
        mark = style.text(sign).ljust(1 if style.colour else len(PLAIN["✗"]))
        text = style.wrapped(verdict_text(each), f"  {mark} ", " " * (len(mark) + 3))
        lines += [style.paint(text[0], colour), *text[1:]]
    invalid = [run for run in labels.analysis.runs if not run.valid]
    if invalid:
        total = len(labels.analysis.runs)
        said = (
            f"{count(len(invalid))} of {plural(total, 'run')} invalid" if total > 1 else "the run is invalid"
        )
        lines += [style.paint(line, "bad") for line in style.wrapped(f"! {said}", hang="    ")]
    return lines


def _totals(style: Style, run: RunResult) -> list[str]:
    traffic, kept = run.traffic, run.counts
    failed = "" if traffic.cohort else f", {count(traffic.errors)} failed"
    lines = style.pair(
        "requests", f"{count(traffic.transactions)} succeeded{failed} in {number(traffic.window_s)} s"
    )
    lines += _cohort(style, run)
    lines += _status_codes(style, run)
    throughput = quantity(traffic.throughput_per_s, "rate", "requests/s")
    if is_lower_bound(run.reasons):
        throughput = f"at least {throughput}: the load generator was the limit, or nearly"
    elif traffic.throughput_interval:
        throughput = plus_minus(traffic.throughput_interval, "rate", "requests/s")
    lines += style.pair("throughput", throughput)
    if traffic.items_per_s:
        lines += style.pair("items", quantity(traffic.items_per_s, "rate", "items/s"))
    payload, wire = (
        quantity(each, "bytes_rate") for each in (traffic.payload_bytes_per_s, traffic.wire_bytes_per_s)
    )
    lines += style.pair("data", f"{payload} of payload, {wire} on the wire")
    lines += style.pair("concurrency", number(traffic.concurrency))
    if not traffic.cohort and (kept.dropped or kept.missed or kept.in_flight_at_end):
        books = [
            ("dropped", kept.dropped),
            ("missed", kept.missed),
            ("in flight at the end", kept.in_flight_at_end),
        ]
        lines += style.pair(
            "also counted", listing(f"{count(times)} {what}" for what, times in books if times)
        )
    if not kept.balanced or kept.lost_records:
        lines += style.pair("DAMAGED", f"the counts do not add up, {count(kept.lost_records)} records lost")
    limit = ": ".join(filter(None, (bottleneck_word(run.bottleneck), run.bottleneck_reason)))
    theirs = [
        each
        for each in run.utilization
        if each.host and each.role in ("host", "service") and each.component != TESTERS_HOST
    ]
    busy = [f"{each.component} {percent(each.mean, 2)} ({each.resource})" for each in theirs]
    if busy:
        lines += style.pair("other hosts", "; ".join(busy[:MAX_WATCHED]))
    return lines + style.pair("bottleneck", limit)


def _status_codes(style: Style, run: RunResult) -> list[str]:
    """Answers by status, successes and failures alike; nothing of a driver that knows none."""
    counts = {each.code: each.count for each in run.traffic.successes_by_code}
    for each in run.traffic.errors_by_kind:
        if each.code.isdecimal():
            counts[each.code] = counts.get(each.code, 0) + each.count
    ranked = sorted(counts.items(), key=lambda item: -item[1])[:MAX_ROWS]
    said = listing((f"[{code}] {plural(times, 'response')}" for code, times in ranked), last="and")
    return style.pair("status codes", said) if said else []


def _cohort(style: Style, run: RunResult) -> list[str]:
    """What became of the transactions of open loads that were scheduled in the window."""
    found = run.traffic.cohort
    if found is None:
        return []
    parts = [f"{count(times)} {what}" for what, times in cohort_counts(found).items() if times]
    return style.pair("scheduled", f"{count(found.scheduled)}: {listing(parts, last='and')}")


def _latency(style: Style, run: RunResult) -> list[str]:
    lines = []
    rows = [("response time", run.traffic.response_ms)]
    if run.traffic.request_ms != run.traffic.response_ms:
        rows.append(("request time", run.traffic.request_ms))
    for name, times in rows:
        texts = [("avg", milliseconds(times.mean))]
        texts += [(what, percentile(times, field)) for what, field in SHOWN_TIMES]
        # a value keeps its name and unit beside it when the line breaks
        said = "  ".join(
            f"{what}{text if text.startswith('>') else f'={text}'}" for what, text in texts if text != UNKNOWN
        )
        lines += style.pair(name, said.replace(SPACE, "") or "no request succeeded")
    return lines


def _connections(style: Style, run: RunResult) -> list[str]:
    """Name lookup, TCP and TLS, where connections were opened."""
    found = run.connections
    if found is None:
        return []
    parts = [f"{count(found.opened)} opened"]
    for what, times in (("connect", found.connect_ms), ("TLS handshake", found.tls_handshake_ms)):
        if times.p50 is not None:
            parts.append(f"{what} p50 {milliseconds(times.p50)}")
        elif times.count:
            parts.append(f"{what} up to {milliseconds(times.max)}")
    if found.lookups:
        parts.append(f"name lookup {milliseconds(max(one.ms for one in found.lookups))}")
    return style.pair("connections", ", ".join(parts))


def _parts(style: Style, run: RunResult) -> list[str]:
    """A line for each stage of a staged load, each population of several, each operation of a mix."""
    several = len({each.workload for each in run.operations}) > 1
    blocks = (
        ("stage", [(each.name or f"stage {each.stage}", each.traffic) for each in run.stages]),
        ("workload", [(each.workload, each.traffic) for each in run.workloads]),
        ("request", [(operation_name(each, several=several), each.traffic) for each in run.operations]),
    )
    lines: list[str] = []
    for head, parts in blocks:
        if len(parts) > 1:
            lines += ([""] if lines else []) + _part_rows(style, head, parts)
    return lines


def _ramp(style: Style, run: RunResult) -> list[str]:
    """A line for each part of a changing load; where these are the stages, their table has the figures."""
    found = run.ramp
    if found is None or len(found.bins) <= len(run.stages):
        return []
    rows = [
        (
            load_words(each.load_low, each.load_high, found.unit),
            quantity(each.traffic.throughput_per_s, "rate", ""),
            *(ramp.shown_percentile(each, name) for name in ramp.PERCENTILES),
            percent(each.traffic.error_rate, 2),
        )
        for each in found.bins[:MAX_ROWS]
    ]
    names = ("requests/s", *ramp.PERCENTILES, "errors")
    columns = [Column(ramp.load_head(found).lower()), *(Column(name, numeric=True) for name in names)]
    return aligned(style, columns, rows)


def _part_rows(style: Style, head: str, parts: Sequence[tuple[str, Traffic]]) -> list[str]:
    rows = [
        (
            name,
            plus_minus(traffic.throughput_interval, "rate", "")
            if traffic.throughput_interval
            else quantity(traffic.throughput_per_s, "rate", ""),
            quantity(traffic.offered_per_s, "rate", ""),
            *(percentile(traffic.response_ms, name) for name in ("p50", "p95")),
            percent(traffic.error_rate, 2),
        )
        for name, traffic in parts[:MAX_ROWS]
    ]
    names = ("requests/s", "offered/s", "median", "p95", "errors")
    return aligned(style, [Column(head), *(Column(name, numeric=True) for name in names)], rows)


def _histogram(style: Style, run: RunResult) -> list[str]:
    """Bars of the share of transactions between equal steps up to p99 (of the points of the ECDF), and the rest."""
    if run.ecdf is None or len(run.ecdf.ms) < 3:
        return []
    last = next(
        (ms for ms, share in zip(run.ecdf.ms, run.ecdf.share, strict=False) if share >= 0.99), run.ecdf.ms[-1]
    )
    first = run.ecdf.ms[0]
    if last <= first:
        return []
    edges = [first + (last - first) * step / HISTOGRAM_ROWS for step in range(1, HISTOGRAM_ROWS + 1)]
    below = [_share_below(run.ecdf, edge) for edge in edges]
    shares = [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]
    room = style.width - 30
    top = max(shares)
    lines = style.pair("histogram", "share of the response times up to")
    names = [milliseconds(edge) for edge in edges] + ["slower"]
    for name, share in zip(names, shares, strict=True):
        bar = "■" * round(room * max(share, 0) / top) if top > 0 else ""
        lines.append(style.text(f"  {name:>12} {percent(max(share, 0.0), 2):>9}  {bar}").rstrip())
    return lines


def _share_below(ecdf: Ecdf, edge: float) -> float:
    return max((share for ms, share in zip(ecdf.ms, ecdf.share, strict=False) if ms <= edge), default=0.0)


def _errors(style: Style, runs: Sequence[RunResult]) -> list[str]:
    kinds: dict[str, int] = {}
    done = sum(run.traffic.transactions for run in runs)
    for run in runs:
        for each in run.traffic.errors_by_kind:
            kind = error_kind(each)
            kinds[kind] = kinds.get(kind, 0) + each.count
    if not kinds:
        return style.pair("errors", "none")
    failed = sum(kinds.values())
    lines = [
        style.paint(line, "bad")
        for line in style.pair("errors", f"{count(failed)} ({percent(failed / (failed + done))})")
    ]
    wide = len(count(max(kinds.values())))
    for kind, times in sorted(kinds.items(), key=lambda item: -item[1]):
        lines += style.wrapped(f"{count(times).rjust(wide)}  {kind}", "    ", " " * (6 + wide))
    return lines


def _testers(style: Style, run: RunResult) -> list[str]:
    agents = len(dict.fromkeys(each.agent for each in run.testers))
    if run.hosts is not None:  # one that did nothing is an agent too
        agents = run.hosts.agents
    if not agents or not run.testers:
        return []
    what = "slot" if run.open_load == "all" else "tester"
    said = f"{plural(len(run.testers), what)}{' of the open load' if what == 'slot' else ''}"
    said += f" on {plural(agents, 'agent')}"
    if has_shares(run):
        of_some = f" over the {count(len(users(run)))} of closed loads" if run.open_load == "some" else ""
        said += f", Jain's index {number(run.jain_index, 4)}{of_some}"
    return style.pair("testers", said)


def _hosts(style: Style, run: RunResult) -> list[str]:
    """Hosts and clocks in a line or two; nothing of a run of one agent."""
    said, lost = hosts.line(run), hosts.lost_line(run)
    lines = style.pair("hosts", said) if said else []
    return lines + ([style.paint(line, "bad") for line in style.pair("lost", lost)] if lost else [])


def _all_totals(style: Style, analysis: Analysis) -> list[str]:
    runs = analysis.runs
    done, failed = sum(run.counts.succeeded for run in runs), sum(run.counts.failed for run in runs)
    lines = style.pair("runs", f"{count(len(runs))} of {count(analysis.experiment.planned_runs)}")
    warmup = " (warm-up included)" if any(run.warmup_s for run in runs) else ""
    lines += style.pair("requests", f"{count(done)} succeeded, {count(failed)} failed{warmup}")
    dropped = sum(run.counts.dropped for run in runs)
    if dropped:
        lines += style.pair("dropped", count(dropped))
    return lines


def _cells(style: Style, labels: Labels) -> list[str]:
    """The table of cells: throughput with interval, p95, errors, bottleneck."""
    metric = labels.throughput
    rows = []
    for cell in labels.cells():
        p95 = cell.responses.get("response_ms_p95")
        runs = [
            run.traffic.response_ms.p95 for run in labels.analysis.runs if run.cell == cell.cell and run.valid
        ]
        known = [value for value in runs if value is not None]
        middle = (
            UNKNOWN
            if not known
            else milliseconds(max(known))
            if len(known) == 1
            else f"≤ {milliseconds(max(known))}"
        )
        load = labels.load_label(cell.load) if labels.load_factor else ""
        rows.append(
            (
                labels.combination(cell.cell),
                load,
                plus_minus(cell.responses.get(metric.name), metric.kind, ""),
                plus_minus(p95, "ms") if p95 else middle,
                percent(cell.error_rate, 2),
                bottleneck_word(cell.bottleneck),
            )
        )
    columns = [
        Column("cell" if labels.load_factor is None else "combination"),
        Column(labels.load_word if labels.load_factor else "", numeric=True),
        Column(metric.unit or metric.title, numeric=True),
        Column("p95", numeric=True),
        Column("errors", numeric=True),
        Column("bottleneck"),
    ]
    kept = [place for place, column in enumerate(columns) if column.name]
    shown = [tuple(row[place] for place in kept) for row in rows[:MAX_ROWS]]
    lines = aligned(style, [columns[place] for place in kept], shown)
    more = len(rows) - MAX_ROWS
    return [*lines, f"  and {plural(more, 'more cell')}: see the report"] if more > 0 else lines


def _readers(style: Style, labels: Labels) -> list[str]:
    """Stale answers, a line for each cell; nothing where no tester read versions."""
    rows = [row for cell in labels.cells() if (row := consistency.line(labels, cell)) is not None]
    if not rows:
        return []
    more = len(rows) - MAX_ROWS
    lines = aligned(style, consistency.LINE, rows[:MAX_ROWS])
    return [*lines, f"  and {plural(more, 'more cell')}: see the report"] if more > 0 else lines


def aligned(style: Style, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns in line. Where they are too wide, heads and texts are shortened, then the last columns are left out;
    numbers are never cut."""
    body = [[style.text(cell) for cell in row] for row in rows]
    heads = [style.text(column.name) for column in columns]
    longest = [max((len(row[at]) for row in body), default=0) for at in range(len(columns))]
    least = [longest[at] if column.numeric else MIN_TEXT for at, column in enumerate(columns)]
    # Rows whose names are cut to the same beginning are indistinguishable.
    least[0] = max(least[0], min(longest[0], style.width // 4))
    kept = len(columns)
    while kept > 1 and sum(least[:kept]) + 2 * kept > style.width:
        kept -= 1
    widths = [max(longest[at], len(heads[at])) for at in range(kept)]
    over = sum(widths) + 2 * kept - style.width
    # texts give way first, the longest first; then the heads of numbers
    for at in sorted(range(kept), key=lambda at: (columns[at].numeric, -widths[at])):
        give = min(max(over, 0), max(0, widths[at] - least[at]))
        widths[at] -= give
        over -= give

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, width, column in zip(cells, widths, columns, strict=False):
            shown = _cut(cell, width)
            parts.append(shown.rjust(width) if column.numeric else shown.ljust(width))
        return ("  " + "  ".join(parts)).rstrip()

    return [style.paint(line(heads), "dim"), *(line(row) for row in body)]


def _cut(text: str, width: int) -> str:
    if width < 4:
        return text[:width]
    return text if len(text) <= width else text[: max(0, width - 2)] + ".."


def _answer(style: Style, labels: Labels) -> list[str]:
    return [line for sentence in shown_answer(labels.analysis) for line in style.wrapped(sentence)]


def _superseded(style: Style, analysis: Analysis) -> list[str]:
    """Verdicts that newer rules state otherwise, and notes on the analysis itself."""
    shown = analysis.superseded[:MAX_SUPERSEDED]
    lines = [line for each in shown for line in style.pair("superseded", each.text)]
    left = len(analysis.superseded) - len(shown)
    if left:
        lines += style.pair("superseded", f"{plural(left, 'more verdict')}: see analysis.json")
    return lines + [line for each in analysis.notes for line in style.pair("note", each)]
