"""Export of every chart as a file, by vl-convert: no browser, no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import altair as alt
import vl_convert

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.wording import THOUSANDS
from plimsoll.deploy.perf.stacks import folded_lines
from plimsoll.errors import BadInput
from plimsoll.plan.topology import Topology
from plimsoll.report.charts import check_figures, effect_figures, load_figures, spec
from plimsoll.report.charts.resources.components import chart as components_chart
from plimsoll.report.charts.resources.testers import chart as testers_chart
from plimsoll.report.charts.series import chart as series_chart
from plimsoll.report.charts.theme import Chart
from plimsoll.report.flames.flame_graph import flame_svg
from plimsoll.report.flames.flames import ServiceProfile, flame_graphs
from plimsoll.report.labels import Labels, has_shares
from plimsoll.report.page_data import chosen_runs
from plimsoll.report.setup.marks import marks_of
from plimsoll.report.setup.picture import is_worth_drawing, setup_picture

Format = Literal["svg", "png", "pdf"]
LOCALE: Final = {"decimal": ".", "thousands": THOUSANDS, "grouping": [3], "currency": ["", ""], "minus": "-"}
INK: Final = "#1b2530"
FONT: Final = "sans-serif"


def write_figures(
    analysis: Analysis,
    directory: Path,
    kind: str,
    topology: Topology | None = None,
    profiles: Sequence[ServiceProfile] = (),
) -> list[Path]:
    """Writes every chart of the report as KEY.KIND, those of single runs as series-RUN.KIND, components-RUN.KIND and
    testers-RUN.KIND, the picture of the set-up as set-up.KIND, and flame graphs as flame-N-SERVICE.KIND, each with its
    stacks as flame-N-SERVICE.folded.

    Creates `directory` if it is missing. `kind`: svg, png (twice the size) or pdf; any other kind raises BadInput.
    Returns the paths of the files.
    """
    if kind not in get_args(Format):
        raise BadInput(f"figures are written as {', '.join(get_args(Format))}, not as {kind!r}")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in _charts(Labels(analysis)):
        path = directory / f"{name}.{kind}"
        write_chart(chart, path, kind)
        written.append(path)
    labels = Labels(analysis)
    if topology is not None and is_worth_drawing(topology):
        path = directory / f"set-up.{kind}"
        path.write_bytes(
            _converted(setup_picture(topology, marks_of(labels, topology)[0], as_file=True), kind)
        )
        written.append(path)
    for graph in flame_graphs(labels, profiles)[0]:
        path = directory / f"{graph.key}.{kind}"
        path.write_bytes(_converted(flame_svg(graph.stacks, graph.title, as_file=True), kind))
        folded = directory / f"{graph.key}.folded"
        folded.write_text(folded_lines(graph.stacks), encoding="utf-8")
        written += [path, folded]
    return written


def _converted(svg: str, kind: str) -> bytes:
    if kind == "svg":
        return svg.encode()
    if kind == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=2.0))
    return bytes(vl_convert.svg_to_pdf(svg))


def write_chart(chart: Chart, path: Path, kind: str) -> None:
    """Writes one chart as a file; a PNG has twice the size."""
    path.write_bytes(_drawn(chart, kind))


def _charts(labels: Labels) -> list[tuple[str, Chart]]:
    figures = (*load_figures(labels), *effect_figures(labels), *check_figures(labels))
    charts: list[tuple[str, Chart]] = [(figure.key, figure.chart) for figure in figures]
    for run in chosen_runs(labels):
        if run.series is not None and run.series.t_s:
            charts.append((f"series-{_file_name(run.id)}", series_chart(run)))
        components = components_chart(run)
        if components is not None:
            charts.append((f"components-{_file_name(run.id)}", components))
        if has_shares(run):
            charts.append((f"testers-{_file_name(run.id)}", testers_chart(run)))
    return charts


def _file_name(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in text)


def _drawn(chart: Chart, kind: str) -> bytes:
    """The chart as the bytes of a file. `currentColor` becomes a fixed colour, because no page surrounds a file."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    document: dict[str, Any] = json.loads(json.dumps(spec(chart)).replace('"currentColor"', json.dumps(INK)))
    document["config"]["font"] = FONT
    options: dict[str, Any] = {"vl_version": version, "format_locale": LOCALE, "allowed_base_urls": []}
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(document, **options)).encode()
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(document, scale=2.0, **options))
    return bytes(vl_convert.vegalite_to_pdf(document, **options))
