"""The summary at the end of a run, as lines of text, in the order of k6's summary. Pure: nothing is printed here.

With colour, the lines contain ANSI colours and Unicode signs. Without colour, they are plain ASCII except for names
from outside. Control characters in such names are replaced by visible text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.answer.compose import shown_answer, so_far
from plimsoll.analyse.answer.load.ramp import load_words
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
from plimsoll.analyse.run.validity.validity import is_lower_bound
from plimsoll.plan.source.units import NS, about_duration
from plimsoll.printable import printable
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.tables import consistency, ramp
from plimsoll.report.tables.analysis import (
    cohort_counts,
    error_kind,
    milliseconds,
    operation_name,
    verdict_text,
)
from plimsoll.report.tables.resources import hosts
from plimsoll.report.tables.table import Column

MAX_WATCHED: Final = 8
"""Maximum number of hosts of targets, and processes on them, that are shown."""
NARROWEST: Final = 40
MIN_TEXT: Final = 10
"""Minimum width of a text column of a table, in characters."""
SHOWN_TIMES: Final = (
    ("med", "p50"),
    ("p(90)", "p90"),
    ("p(95)", "p95"),
    ("p(99)", "p99"),
    ("p(99.9)", "p999"),
    ("max", "max"),
)
MAX_ROWS: Final = 40
"""Maximum number of rows of a table; the report contains all."""
MAX_SUPERSEDED: Final = 10
"""Maximum number of verdicts that newer rules changed; analysis.json and the report contain all."""
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
    """Style of the lines: their width in columns, and whether they contain colour and Unicode."""

    width: int
    colour: bool

    def text(self, text: str) -> str:
        """A text for the terminal: without control characters, and with signs in ASCII if required."""
        return self._held(text).replace(SPACE, " ")

    def _held(self, text: str) -> str:
        """As `text`, but with no-break spaces, at which a line is not broken."""
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
        """The text in a colour of COLOURS; unchanged if the style has no colour."""
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.colour and text else text

    def wrapped(self, text: str, indent: str = "  ", hang: str = "  ") -> list[str]:
        """The text as lines of at most the width; `hang`: the indentation of all lines after the first."""
        return self._broken(text, indent, hang) or [indent.rstrip()]

    def pair(self, name: str, value: str) -> list[str]:
        """`name....: value` in the form of k6, as lines of at most the width."""
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
    """The summary: verdicts, totals, latency, errors, testers, cells, answer, written files.

    `width`: columns of the terminal, at least 40. `quiet`: only failed thresholds and the answer. A single run also
    has a histogram of its response time.
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
            # A cell of a search is a load, which followed from the results: the answer has the capacities.
            cells = [] if analysis.search is not None else _cells(style, labels)
            blocks += [_all_totals(style, analysis), cells, _errors(style, analysis.runs)]
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
    """Only the lines that explain the exit code: failed thresholds, and the reason if no run is valid."""
    style = Style(max(width, NARROWEST), colour)
    lines = _verdicts(style, Labels(analysis), only_failed=True)
    nothing = [finding.text for finding in analysis.findings if finding.topic == Topic.NOTHING]
    return lines + [line for text in nothing for line in style.wrapped(text)]


def _head(style: Style, labels: Labels) -> list[str]:
    info = labels.analysis.experiment
    title = info.name if not info.question else f"{info.name}: {info.question}"
    lines = [style.paint(line, "bold") for line in style.wrapped(title)]
    unfinished = so_far(labels.analysis)
    return lines + ([style.paint(line, "warn") for line in style.wrapped(unfinished)] if unfinished else [])


def _verdicts(style: Style, labels: Labels, *, only_failed: bool) -> list[str]:
    lines = []
    for verdict in labels.analysis.verdicts:
        if only_failed and (verdict.passed or not verdict.judged):
            continue
        sign, colour = (
            ("✓", "good") if verdict.passed else ("✗", "bad") if verdict.judged else (UNKNOWN, "dim")
        )
        mark = style.text(sign).ljust(1 if style.colour else len(PLAIN["✗"]))
        text = style.wrapped(verdict_text(verdict), f"  {mark} ", " " * (len(mark) + 3))
        lines += [style.paint(text[0], colour), *text[1:]]
    invalid = [run for run in labels.analysis.runs if not run.valid]
    if invalid:
        total = len(labels.analysis.runs)
        message = (
            f"{count(len(invalid))} of {plural(total, 'run')} invalid" if total > 1 else "the run is invalid"
        )
        lines += [style.paint(line, "bad") for line in style.wrapped(f"! {message}", hang="    ")]
    return lines


def _totals(style: Style, run: RunResult) -> list[str]:
    traffic, counts = run.traffic, run.counts
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
        quantity(rate, "bytes_rate") for rate in (traffic.payload_bytes_per_s, traffic.wire_bytes_per_s)
    )
    lines += style.pair("data", f"{payload} of payload, {wire} on the wire")
    lines += style.pair("concurrency", number(traffic.concurrency))
    if not traffic.cohort and (counts.dropped or counts.missed or counts.in_flight_at_end):
        books = [
            ("dropped", counts.dropped),
            ("missed", counts.missed),
            ("in flight at the end", counts.in_flight_at_end),
        ]
        lines += style.pair(
            "also counted", listing(f"{count(times)} {name}" for name, times in books if times)
        )
    if not counts.balanced or counts.lost_records:
        lines += style.pair("DAMAGED", f"the counts do not add up, {count(counts.lost_records)} records lost")
    limit = ": ".join(filter(None, (bottleneck_word(run.bottleneck), run.bottleneck_reason)))
    watched = [
        usage
        for usage in run.utilization
        if usage.host and usage.role in ("host", "service") and usage.component != TESTERS_HOST
    ]
    busy = [f"{usage.component} {percent(usage.mean, 2)} ({usage.resource})" for usage in watched]
    if busy:
        lines += style.pair("other hosts", "; ".join(busy[:MAX_WATCHED]))
    return lines + style.pair("bottleneck", limit)


def _status_codes(style: Style, run: RunResult) -> list[str]:
    """Responses by status code, successful and failed ones; empty for a driver without status codes."""
    counts = {success.code: success.count for success in run.traffic.successes_by_code}
    for error in run.traffic.errors_by_kind:
        if error.code.isdecimal():
            counts[error.code] = counts.get(error.code, 0) + error.count
    ranked = sorted(counts.items(), key=lambda item: -item[1])[:MAX_ROWS]
    text = listing((f"[{code}] {plural(times, 'response')}" for code, times in ranked), last="and")
    return style.pair("status codes", text) if text else []


def _cohort(style: Style, run: RunResult) -> list[str]:
    """Outcomes of the transactions of open loads that were scheduled in the window."""
    cohort = run.traffic.cohort
    if cohort is None:
        return []
    parts = [f"{count(times)} {name}" for name, times in cohort_counts(cohort).items() if times]
    return style.pair("scheduled", f"{count(cohort.scheduled)}: {listing(parts, last='and')}")


def _latency(style: Style, run: RunResult) -> list[str]:
    lines = []
    rows = [("response time", run.traffic.response_ms)]
    if run.traffic.request_ms != run.traffic.response_ms:
        rows.append(("request time", run.traffic.request_ms))
    first_byte, transfer = run.traffic.first_byte_ms, run.traffic.transfer_ms
    # If each answer came with one read, its first byte is its last one, and both lines repeat the request time.
    if transfer is not None and transfer.max:
        rows += [("first byte", first_byte), ("transfer", transfer)] if first_byte is not None else []
    if (less := run.traffic.response_less_rtt_ms) is not None:
        rows.append(("less round trip", less))
    for name, times in rows:
        texts = [("avg", milliseconds(times.mean))]
        texts += [(label, percentile(times, field)) for label, field in SHOWN_TIMES]
        # A line is not broken between a name, its value and the unit.
        line = "  ".join(
            f"{label}{text if text.startswith('>') else f'={text}'}"
            for label, text in texts
            if text != UNKNOWN
        )
        lines += style.pair(name, line.replace(SPACE, "") or "no request succeeded")
    return lines


def _connections(style: Style, run: RunResult) -> list[str]:
    """Name lookup, TCP and TLS; empty if no connection was opened."""
    result = run.connections
    if result is None:
        return []
    parts = [f"{count(result.opened)} opened"]
    for step, times in (("connect", result.connect_ms), ("TLS handshake", result.tls_handshake_ms)):
        if times.p50 is not None:
            parts.append(f"{step} p50 {milliseconds(times.p50)}")
        elif times.count:
            parts.append(f"{step} up to {milliseconds(times.max)}")
    if result.lookups:
        parts.append(f"name lookup {milliseconds(max(lookup.ms for lookup in result.lookups))}")
    return style.pair("connections", ", ".join(parts))


def _parts(style: Style, run: RunResult) -> list[str]:
    """Tables with a line for each stage, each workload and each operation, if there are several of them."""
    several = len({operation.workload for operation in run.operations}) > 1
    blocks = (
        ("stage", [(stage.name or f"stage {stage.stage}", stage.traffic) for stage in run.stages]),
        ("workload", [(workload.workload, workload.traffic) for workload in run.workloads]),
        (
            "request",
            [(operation_name(operation, several=several), operation.traffic) for operation in run.operations],
        ),
    )
    lines: list[str] = []
    for head, parts in blocks:
        if len(parts) > 1:
            lines += ([""] if lines else []) + _part_rows(style, head, parts)
    return lines


def _ramp(style: Style, run: RunResult) -> list[str]:
    """A line for each part of a changing load; empty if the parts are the stages, which have their own table."""
    ramp_result = run.ramp
    if ramp_result is None or len(ramp_result.bins) <= len(run.stages):
        return []
    steps = ramp_result.steps
    parts = steps if 0 < len(steps) <= MAX_ROWS else ramp_result.bins
    rows = [
        (
            load_words(ramp_bin.load_low, ramp_bin.load_high, ramp_result.unit),
            quantity(ramp_bin.traffic.throughput_per_s, "rate", ""),
            *(ramp.shown_percentile(ramp_bin, name) for name in ramp.PERCENTILES),
            percent(ramp_bin.traffic.error_rate, 2),
        )
        for ramp_bin in parts[:MAX_ROWS]
    ]
    names = ("requests/s", *ramp.PERCENTILES, "errors")
    columns = [Column(ramp.load_head(ramp_result).lower()), *(Column(name, numeric=True) for name in names)]
    note = ramp.merged_note(ramp_result) if parts is steps else ""
    return aligned(style, columns, rows) + (style.wrapped(note) if note else [])


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
    """Bars of the share of transactions in intervals of equal length up to p99, and of all slower ones. The shares are
    those of the points of the ECDF."""
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
    bar_width = style.width - 30
    top = max(shares)
    lines = style.pair("histogram", "share of the response times up to")
    names = [milliseconds(edge) for edge in edges] + ["slower"]
    for name, share in zip(names, shares, strict=True):
        bar = "■" * round(bar_width * max(share, 0) / top) if top > 0 else ""
        lines.append(style.text(f"  {name:>12} {percent(max(share, 0.0), 2):>9}  {bar}").rstrip())
    return lines


def _share_below(ecdf: Ecdf, edge: float) -> float:
    return max((share for ms, share in zip(ecdf.ms, ecdf.share, strict=False) if ms <= edge), default=0.0)


def _errors(style: Style, runs: Sequence[RunResult]) -> list[str]:
    kinds: dict[str, int] = {}
    completed = sum(run.traffic.transactions for run in runs)
    for run in runs:
        for error in run.traffic.errors_by_kind:
            kind = error_kind(error)
            kinds[kind] = kinds.get(kind, 0) + error.count
    if not kinds:
        return style.pair("errors", "none")
    failed = sum(kinds.values())
    lines = [
        style.paint(line, "bad")
        for line in style.pair("errors", f"{count(failed)} ({percent(failed / (failed + completed))})")
    ]
    wide = len(count(max(kinds.values())))
    for kind, times in sorted(kinds.items(), key=lambda item: -item[1]):
        lines += style.wrapped(f"{count(times).rjust(wide)}  {kind}", "    ", " " * (6 + wide))
    return lines


def _testers(style: Style, run: RunResult) -> list[str]:
    agents = len(dict.fromkeys(tester.agent for tester in run.testers))
    if run.hosts is not None:  # the number includes agents whose testers made no transaction
        agents = run.hosts.agents
    if not agents or not run.testers:
        return []
    noun = "slot" if run.open_load == "all" else "tester"
    text = f"{plural(len(run.testers), noun)}{' of the open load' if noun == 'slot' else ''}"
    text += f" on {plural(agents, 'agent')}"
    if has_shares(run):
        of_some = f" over the {count(len(users(run)))} of closed loads" if run.open_load == "some" else ""
        text += f", Jain's index {number(run.jain_index, 4)}{of_some}"
    return style.pair("testers", text)


def _hosts(style: Style, run: RunResult) -> list[str]:
    """Hosts, clocks and lost agents; empty for a run of one agent."""
    text, lost = hosts.line(run), hosts.lost_line(run)
    lines = style.pair("hosts", text) if text else []
    return lines + ([style.paint(line, "bad") for line in style.pair("lost", lost)] if lost else [])


def _all_totals(style: Style, analysis: Analysis) -> list[str]:
    runs = analysis.runs
    succeeded, failed = sum(run.counts.succeeded for run in runs), sum(run.counts.failed for run in runs)
    lines = _number_of_runs(style, analysis)
    warmup = " (warm-up included)" if any(run.warmup_s for run in runs) else ""
    lines += style.pair("requests", f"{count(succeeded)} succeeded, {count(failed)} failed{warmup}")
    dropped = sum(run.counts.dropped for run in runs)
    if dropped:
        lines += style.pair("dropped", count(dropped))
    return lines


def _number_of_runs(style: Style, analysis: Analysis) -> list[str]:
    search = analysis.search
    if search is None:
        return style.pair("runs", f"{count(len(analysis.runs))} of {count(analysis.experiment.planned_runs)}")
    each = f" of each of {len(search.cells)} cells" if len(search.cells) > 1 else ""
    spent = about_duration(sum(cell.spent_s for cell in search.cells) * NS["s"])
    searches = f"{plural(search.repeat, 'search', 'searches')}{each}"
    return style.pair("trials", f"{count(len(analysis.runs))} in {spent} ({searches})")


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
    kept = [index for index, column in enumerate(columns) if column.name]
    shown = [tuple(row[index] for index in kept) for row in rows[:MAX_ROWS]]
    lines = aligned(style, [columns[index] for index in kept], shown)
    more = len(rows) - MAX_ROWS
    return [*lines, f"  and {plural(more, 'more cell')}: see the report"] if more > 0 else lines


def _readers(style: Style, labels: Labels) -> list[str]:
    """Stale answers, a line for each cell; empty if no tester read versions."""
    rows = [row for cell in labels.cells() if (row := consistency.line(labels, cell)) is not None]
    if not rows:
        return []
    more = len(rows) - MAX_ROWS
    lines = aligned(style, consistency.LINE, rows[:MAX_ROWS])
    return [*lines, f"  and {plural(more, 'more cell')}: see the report"] if more > 0 else lines


def aligned(style: Style, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns.

    If the columns are too wide, the last ones are left out, and heads and texts are shortened. Numbers are never cut.
    """
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
    # Texts are shortened first, the longest before the others, then the heads of numbers.
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
    """Verdicts that newer rules changed, and notes on the analysis itself."""
    shown = analysis.superseded[:MAX_SUPERSEDED]
    lines = [line for verdict in shown for line in style.pair("superseded", verdict.text)]
    left = len(analysis.superseded) - len(shown)
    if left:
        lines += style.pair("superseded", f"{plural(left, 'more verdict')}: see analysis.json")
    return lines + [line for note in analysis.notes for line in style.pair("note", note)]
