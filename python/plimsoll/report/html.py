"""The report: one self-contained HTML file, which loads nothing.

Every text from outside is escaped: in the page by Jinja, in the data by `for_script`. A content security policy names
the two scripts of the page by their hash and forbids everything else. A text that was not escaped could therefore
neither run nor fetch anything. Vega's expressions are interpreted, not compiled, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from markupsafe import Markup

from plimsoll import __version__
from plimsoll.analyse.answer.compose import shown_answer, so_far
from plimsoll.analyse.results.analysis import Analysis, Verdict
from plimsoll.analyse.results.wording import count, describe, number, percent, plural
from plimsoll.compare.result import ComparisonResult
from plimsoll.plan.source.units import about_size
from plimsoll.report.charts import Figure, check_figures, effect_figures, load_figures, shown_runs
from plimsoll.report.charts.compare import comparison as comparison_charts
from plimsoll.report.compare.comparison import (
    conclusion,
    control_tables,
    headline,
    remarkable,
    remarks,
    sentence,
)
from plimsoll.report.flames.flames import FlameGraph, ServiceProfile, flame_graphs
from plimsoll.report.key_figures import key_figures
from plimsoll.report.labels import Labels, has_shares, users
from plimsoll.report.page_data import chosen_runs, first_run, for_script, page_data
from plimsoll.report.setup.marks import Picture, picture_of
from plimsoll.report.setup.setup import SetUp
from plimsoll.report.tables import analysis as tables
from plimsoll.report.tables import consistency, demands, regressions, until_tight
from plimsoll.report.tables import run as run_tables
from plimsoll.report.tables import search as search_tables
from plimsoll.report.tables.analysis import verdict_text
from plimsoll.report.tables.capacities import capacities
from plimsoll.report.tables.compare.comparison import comparisons_table
from plimsoll.report.tables.resources import caches, counted, hosts, machine, memory
from plimsoll.report.tables.table import Column, Table
from plimsoll.report.template import PACKAGE, asset, page_template, policy
from plimsoll.report.vega import vega_bundle

MAX_OBJECTIONS: Final = 3
"""Maximum number of invalid and doubtful runs whose table is not folded. The answer names the most frequent reasons."""
TERMS: Final = (
    ("Response time", "End minus scheduled start. The delay of a late tester shows in it."),
    ("Request time", "End minus actual start: what the request itself took."),
    ("Throughput", "Successful transactions that ended in the window, divided by the window."),
    ("Concurrency", "Mean number of requests in progress."),
    ("Utilization", "Busy share of a resource. A service with one busy thread is full when that thread is."),
    (
        "Saturation",
        "The loads between which throughput stops increasing with the load; never finer than the loads tried.",
    ),
    (
        "Nominal, usable, error-limited capacity",
        "Nominal: highest throughput. Usable: highest throughput at a load that meets its rules. "
        "Error-limited: highest load at which the upper bound of the error rate meets the rule.",
    ),
    (
        "Share and Jain's index",
        "Share: work of a tester relative to a fair part, 1 is fair. Jain's index: (Σx)² / (n Σx²) "
        "over the testers, 1 is fair, 1/n when one gets everything. Of closed loads only: the testers of an open one "
        "are slots that take the next arrival, not users.",
    ),
    (
        "±",
        "95 % confidence interval. A run is the unit of replication: intervals of cells come from repetitions, those "
        "of a single run from batch means. One repetition has no interval.",
    ),
    (
        "Percentiles",
        "From all transactions or merged histograms, never averaged; – where the sample is too small.",
    ),
    ("Effects", "After R. Jain, The Art of Computer Systems Performance Analysis (1991), ch. 17 to 22."),
    (
        "Valid",
        "A run is invalid and left out if the load generator was the limit. The table shows the numbers behind each "
        "verdict.",
    ),
)


class Text(NamedTuple):
    """A text that is shown unchanged. It is folded unless `open` is set."""

    title: str
    text: str
    open: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    key: str
    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    folded: tuple[Table, ...] = ()
    texts: tuple[Text, ...] = field(default=())
    warnings: tuple[str, ...] = ()
    picture: Picture | None = None
    flames: tuple[FlameGraph, ...] = ()


def render(
    analysis: Analysis,
    setup: SetUp,
    profiles: Sequence[ServiceProfile] = (),
    *,
    bundle: str | None = None,
    all_bins: bool = False,
) -> str:
    """The report as HTML. `profiles`: samples of services; `bundle`: a script in place of Vega (about 900 kB), for
    tests of the page alone; `all_bins`: no bins of time series are merged."""
    labels = Labels(analysis)
    runs = chosen_runs(labels)
    sections = _sections(labels, setup, profiles, with_runs=bool(runs))
    script = asset(PACKAGE, "report.js")
    vega = vega_bundle() if bundle is None else bundle
    figures = [figure for section in sections for figure in section.figures]
    first = first_run(labels, runs)
    left = len(shown_runs(labels)) - len(runs)
    return page_template(PACKAGE, "report.html").render(
        kind="report",
        name=analysis.experiment.name,
        policy=policy(vega, script),
        version=__version__,
        css=Markup(asset(PACKAGE, "report.css")),
        info=analysis.experiment,
        facts=_facts(analysis),
        so_far=so_far(analysis),
        key_figures=key_figures(labels),
        answer=[*_compared(analysis.comparison), *shown_answer(analysis)] or ["There is no answer yet."],
        verdicts=[_mark(verdict) | {"text": verdict_text(verdict)} for verdict in analysis.verdicts],
        contents=[
            *((section.key, section.title) for section in sections),
            ("terms", "Terms and methods"),
        ],
        sections=sections,
        with_testers=any(map(users, runs)),
        picks=[
            {"id": run.id, "label": labels.run(run), "first": run is first}
            for run in sorted(runs, key=lambda run: run.order)
        ],
        left_runs=f"This file leaves out the series of {plural(left, 'more run')}; `plimsoll show` prints the results."
        if left
        else "",
        terms=_terms(labels),
        data=Markup(for_script(page_data(analysis.experiment.name, figures, runs, all_bins=all_bins))),
        scripts=[Markup(vega), Markup(script)],
        made_from=analysis.experiment.directory,
    )


def _terms(labels: Labels) -> tuple[tuple[str, str], ...]:
    readers = consistency.TERMS if consistency.has_readers(labels) else ()
    return (*TERMS, *readers, *(hosts.TERMS if hosts.shown_run(labels) is not None else ()))


def _mark(verdict: Verdict) -> dict[str, str]:
    if not verdict.judged:
        return {"kind": "open", "sign": "–"}
    return {"kind": "good", "sign": "✓"} if verdict.passed else {"kind": "bad", "sign": "✗"}


def _facts(analysis: Analysis) -> str:
    info = analysis.experiment
    invalid = sum(not run.valid for run in analysis.runs)
    doubtful = sum(run.valid and bool(run.doubtful_reasons) for run in analysis.runs)
    facts = [
        _minute(info.started),
        info.design.replace("-", " ") if info.factors else "",
        *_numbers(analysis),
        _how_many(invalid, "invalid", analysis) or (_how_many(len(analysis.runs), "valid", analysis)),
        _how_many(doubtful, "doubtful", analysis),
        f"seed {info.seed}" if info.seed is not None else "",
    ]
    return " · ".join(part for part in facts if part)


def _numbers(analysis: Analysis) -> tuple[str, str]:
    """The runs and the repetitions. Those of a search are its trials and complete searches."""
    info, search = analysis.experiment, analysis.search
    if search is None:
        runs = f"{count(len(analysis.runs))} of {plural(info.planned_runs, 'run')}"
        return runs, plural(info.repetitions, "repetition")
    each = " of each cell" if len(search.cells) > 1 else ""
    return plural(len(analysis.runs), "trial"), f"{plural(search.repeat, 'search', 'searches')}{each}"


def _how_many(amount: int, word: str, analysis: Analysis) -> str:
    """`2 invalid`, `all valid`; the word alone if there is a single run; empty if `amount` is 0."""
    if not amount or len(analysis.runs) == 1:
        return word if amount else ""
    return f"{'all' if word == 'valid' else count(amount)} {word}"


def _minute(started: str) -> str:
    """An ISO 8601 time to the minute; a text that is not such a time is returned unchanged."""
    try:
        return f"{datetime.fromisoformat(started).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return started


def _sections(
    labels: Labels, setup: SetUp, profiles: Sequence[ServiceProfile], *, with_runs: bool
) -> list[Section]:
    drawn = {figure.key: figure for figure in load_figures(labels)}
    analysis = labels.analysis

    def of(*keys: str) -> tuple[Figure, ...]:
        return tuple(drawn[key] for key in keys if key in drawn)

    search = analysis.search
    capacity: tuple[Table, ...] = (capacities(labels),) if analysis.saturation else ()
    if search is not None:
        capacity = tuple(
            table
            for table in (search_tables.found(search), search_tables.ratios(search))
            if table is not None
        )
    single = bool(analysis.runs) and "throughput" not in drawn
    totals, times, failed = (
        (make(labels),) if single else () for make in (tables.totals, tables.distribution, tables.errors)
    )
    if any(run.traffic.cohort for run in analysis.runs):
        failed = (tables.cohorts(labels), *failed)
    run_totals = () if single or not analysis.runs else (tables.totals(labels),)
    folded, shown = (failed, ()) if not single and "errors" not in drawn else ((), failed)
    sections = [
        _comparison(analysis.comparison),
        Section(
            "throughput",
            "Throughput and capacity",
            tables=capacity,
            figures=of("trials", "percentiles", "throughput"),
            folded=run_totals or totals,
        ),
        Section(
            "until",
            "Repetitions",
            tables=() if analysis.until is None else (until_tight.table(analysis.until),),
        ),
        Section(
            "response",
            "Response time",
            tables=times + _caches(labels),
            figures=of("response", "distribution"),
        ),
        _readers(labels, of("consistency")),
        Section(
            "operations",
            "Requests of the mix",
            tables=(tables.operations(labels),) if any(run.operations for run in analysis.runs) else (),
            figures=of("operations"),
        ),
        Section("stages", "Stages and workloads", tables=_stages(labels) if single else ()),
        Section(
            "errors",
            "Errors",
            _no_errors(labels) if not single and "errors" not in drawn else "",
            tables=shown,
            figures=of("errors"),
            folded=folded,
        ),
        Section("ramp", "Against the load", figures=of(*(key for key in drawn if key.startswith("ramp-")))),
        Section(
            "utilization",
            "Bottlenecks",
            picture=picture_of(labels, setup.topology),
            tables=tuple(table for table in (memory.table(labels),) if table is not None),
            figures=of("utilization", "memory"),
            folded=(figures,) if (figures := counted.derived(labels)) is not None else (),
        ),
        Section(
            "demands",
            "What a transaction costs",
            tables=demands.shown(labels),
            folded=demands.others(labels),
        ),
        _flames(labels, profiles),
        Section(
            "responses",
            "Other responses",
            figures=of(*(key for key in drawn if key.startswith("metric-"))),
        ),
        Section(
            "charts",
            "Charts of the experiment file",
            figures=of(*(key for key in drawn if key.startswith("chart-"))),
        ),
        Section("fairness", "Fairness", _fairness(labels), figures=of("fairness")),
        _hosts(labels, of("sites", "site-shares", "hosts", "host-spread", "coverage")),
        *(
            [Section("one-run", "The run in detail" if len(analysis.runs) == 1 else "One run in detail")]
            if with_runs
            else []
        ),
        _effects(labels),
        Section(
            "checks",
            "Checks of the runs and the model",
            figures=tuple(check_figures(labels)),
            warnings=_model_warnings(labels),
        ),
        _validity(labels),
        _superseded(labels),
        _set_up(labels, setup),
    ]
    return [section for section in sections if _has_content(section)]


def _compared(result: object) -> list[str]:
    """The first sentences of the answer of a paired design."""
    if not isinstance(result, ComparisonResult):
        return []
    head = f"{result.new.name} compared with {result.old.name}: {headline(result)}."
    return [head, *map(sentence, remarkable(result))]


def _comparison(result: object) -> Section:
    """The section of the comparison of a paired design; without contents if there is none."""
    title = "Comparison"
    if not isinstance(result, ComparisonResult):
        return Section("comparison", title)
    has_cells = any(one.cell for one in result.comparisons)
    shown = (comparisons_table(result.comparisons, has_cells=has_cells), *control_tables(result))
    return Section(
        "comparison",
        title,
        " ".join(conclusion(result)),
        tables=shown,
        figures=tuple(
            figure for figure in (comparison_charts.ratios(result), comparison_charts.runs(result)) if figure
        ),
        warnings=tuple(remarks(result)),
    )


def _flames(labels: Labels, profiles: Sequence[ServiceProfile]) -> Section:
    """The section of flame graphs; without contents if no service has `perf: true`."""
    graphs, remarks = flame_graphs(labels, profiles)
    return Section(
        "flames", "Where services spend processor time", flames=tuple(graphs), warnings=tuple(remarks)
    )


def _caches(labels: Labels) -> tuple[Table, ...]:
    table = caches.by_cache(labels)
    return () if table is None else (table,)


def _readers(labels: Labels, figures: tuple[Figure, ...]) -> Section:
    """The section of stale answers; without contents if no tester read versions."""
    title = "Stale answers"
    if not consistency.has_readers(labels):
        return Section("readers", title)
    levels = consistency.levels(labels)
    shown = (*([levels] if levels else []), consistency.cells(labels), consistency.costs(labels))
    return Section("readers", title, tables=shown, figures=figures, folded=(consistency.runs(labels),))


def _hosts(labels: Labels, figures: tuple[Figure, ...]) -> Section:
    """The section of hosts, sites and clocks; without contents if no run has several agents."""
    title = "Hosts and clocks"
    run = hosts.shown_run(labels)
    if run is None or run.hosts is None:
        return Section("hosts", title)
    shown = (
        hosts.sites(labels) if run.hosts.sites else None,
        hosts.lost(run),
        hosts.with_and_without(run),
        hosts.clocks(run),
        hosts.events(run),
    )
    folded = (
        (hosts.hosts(run),)
        if run.hosts.hosts and not any(figure.key == "hosts" for figure in figures)
        else ()
    )
    tables_of = tuple(table for table in shown if table is not None)
    return Section("hosts", title, hosts.words(run.hosts), tables=tables_of, figures=figures, folded=folded)


def _effects(labels: Labels) -> Section:
    """Figures of the shares of the variation and of the regressions. If the variation cannot be allocated (an
    unbalanced design), the tables of the effects; the regressions on several factors have tables only."""
    figures = tuple(effect_figures(labels))
    shares = any(figure.key.startswith("effects-") for figure in figures)
    bare = () if shares else tuple(tables.effects(labels, model) for model in labels.analysis.models)
    folded = (*bare, *regressions.several_factors(labels))
    return Section("effects", "Effects of the factors", folded=folded, figures=figures)


def _has_content(section: Section) -> bool:
    shown = (
        section.text
        or section.tables
        or section.figures
        or section.folded
        or section.texts
        or section.picture
        or section.flames
        or section.warnings
    )
    return bool(shown) or section.key == "one-run"


def _stages(labels: Labels) -> tuple[Table, ...]:
    return tuple(run_tables.stages(run) for run in chosen_runs(labels) if run.stages or run.workloads)


def _fairness(labels: Labels) -> str:
    indices = [
        run.jain_index
        for run in labels.runs()
        if run.valid and has_shares(run) and run.jain_index is not None
    ]
    if not indices or len(labels.analysis.cells) < 2:
        return ""
    return (
        f"Jain's index of the valid runs: {number(min(indices), 4)} to {number(max(indices), 4)} (1 is fair)."
    )


def _no_errors(labels: Labels) -> str:
    """The text in place of a chart of errors: the upper bound of the error rate. Empty if no cell has a bound."""
    rates = [cell.error_rate_upper for cell in labels.analysis.cells if cell.error_rate_upper is not None]
    if not rates:
        return ""
    return f"No request of a valid run failed; the error rate of every cell is at most {percent(max(rates), 2)} (95 %)."


def _model_warnings(labels: Labels) -> tuple[str, ...]:
    """Remarks on the models. The page shows them before the charts."""
    return tuple(
        f"Model of the {describe(model.response).title}: {'; '.join(model.remarks)}."
        for model in labels.analysis.models
        if model.remarks
    )


def _validity(labels: Labels) -> Section:
    runs = labels.analysis.runs
    if not runs:
        return Section("validity", "Validity")
    bad = [run for run in runs if not run.valid or run.doubtful_reasons]
    invalid = sum(not run.valid for run in runs)
    text = f"{count(len(runs) - invalid)} of {plural(len(runs), 'run')} are valid. " if len(runs) > 1 else ""
    text += "" if bad else "None is doubtful." if len(runs) > 1 else "The run is valid."
    if not labels.analysis.left_out:
        text += " Nothing was left out."
    validity_table = tables.validity(labels)
    objections = (tables.objections(labels),) if bad else ()
    shown, folded = (
        (objections, [validity_table]) if len(bad) <= MAX_OBJECTIONS else ((), [*objections, validity_table])
    )
    folded.append(tables.run_counts(labels))
    compared = counted.tiers(labels)
    folded += [] if compared is None else [compared]
    folded += [tables.left_out(labels)] if labels.analysis.left_out else []
    return Section("validity", "Validity", text.strip(), tables=shown, folded=tuple(folded))


def _superseded(labels: Labels) -> Section:
    """Verdicts of an earlier analysis that newer rules changed, and notes; without contents if there are none."""
    analysis = labels.analysis
    shown = (tables.superseded(labels),) if analysis.superseded else ()
    return Section("superseded", "Superseded verdicts", " ".join(analysis.notes), tables=shown)


def _set_up(labels: Labels, setup: SetUp) -> Section:
    info = labels.analysis.experiment
    facts = [("directory", info.directory), ("command", setup.command_line)]
    facts += [(f"factor {name}", ", ".join(levels)) for name, levels in info.factors.items()]
    facts += [(f"seed of {name}", str(seed)) for name, seed in setup.seeds.items()]
    shown, folded = machine.tables_of(setup.environment)
    first = machine.pairs("Machine and experiment", [row for row in facts if row[1]] + shown)
    if setup.files:
        columns = (Column("File"), Column("Size", numeric=True))
        folded.append(
            Table("Files", columns, tuple((file.path, about_size(file.bytes)) for file in setup.files))
        )
    texts = [
        Text("Experiment file, as written", setup.experiment_text),
        Text("Effective configuration, with every default", setup.effective_text),
    ]
    for name, kind, configuration, version in setup.services:
        texts.append(Text(f"Service {name}: {kind} {version}".strip(), configuration or "(no configuration)"))
    return Section(
        "set-up",
        "Set-up",
        folded=(first, *machine.hosts(setup.environment, labels.analysis.pool), *folded),
        texts=tuple(text for text in texts if text.text),
    )
