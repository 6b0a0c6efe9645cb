"""The pictures of a trace as files, drawn by Altair and vl-convert without a browser or network.

Altair cannot draw millions of marks: a file with many requests is drawn from its bins, as in the page. The title then
contains "binned".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final, Literal

import altair as alt

from plimsoll.analyse.results.wording import count
from plimsoll.report.charts.theme import Chart, Rows, chart_of, finish
from plimsoll.report.figures import write_chart
from plimsoll.trace import engine
from plimsoll.trace.pictures import Picture, Pictures
from plimsoll.trace.profile import FileProfile, Profile, ProfileDocument, Spread

MAX_FILES: Final = 12
"""Maximum number of files whose patterns and histograms are drawn: the first ones with data. `--file` selects
others."""
MAX_LINES: Final = 30
MAX_MARKS: Final = 5_000
"""Maximum number of requests that Altair draws one by one. If there are more, bins are drawn."""
COLUMNS: Final = 200
ROWS: Final = 100
WIDTH: Final = 720
READ, WRITE, OTHER = "#0a5c8f", "#c95a00", "#6b7785"
WAYS: Final = ("read", "write")


def write_figures(
    trace: Path,
    document: ProfileDocument,
    selection: engine.TraceSelection,
    directory: Path,
    kind: Literal["svg", "png", "pdf"],
) -> list[Path]:
    """Writes charts of the run, of its files over time, and of the patterns and histograms of the first files.

    Creates `directory` if it is missing. Returns the paths of the files. Raises EngineError.
    """
    pictures = engine.pictures(trace, selection, limit=MAX_MARKS, columns=COLUMNS, rows=ROWS)
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in charts(document.profile, pictures):
        path = directory / f"{name}.{kind}"
        write_chart(chart, path, kind)
        written.append(path)
    return written


def charts(profile: Profile, pictures: Pictures) -> Iterator[tuple[str, Chart]]:
    """Names of files and charts."""
    yield "run", run_chart(profile)
    lines = [file for file in profile.files if file.timeline][:MAX_LINES]
    if lines:
        yield "files", lines_chart(profile, lines)
    picture_by_path = {file.path: file for file in pictures.files}
    drawn = [
        file for file in profile.files if file.path in picture_by_path and picture_by_path[file.path].requests
    ][:MAX_FILES]
    for file in drawn:
        yield f"pattern-{key(file.path)}", pattern_chart(picture_by_path[file.path])
        for name, chart in histograms(file):
            yield f"{name}-{key(file.path)}", chart


def key(path: str) -> str:
    """A part of the name of a chart's file: the readable end of the path, and a suffix that makes it unique."""
    readable = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in PurePath(path).name)
    return f"{readable[:40].strip('-') or 'file'}-{hashlib.sha256(path.encode()).hexdigest()[:6]}"


def _colour(legend: bool = True) -> alt.Color:
    return alt.Color(
        "way:N",
        scale=alt.Scale(domain=list(WAYS), range=[READ, WRITE]),
        legend=alt.Legend(title=None, symbolOpacity=1) if legend else None,
    )


def run_chart(profile: Profile) -> Chart:
    """Bytes per second over the run: read upward, written downward."""
    line = profile.timeline
    rows: Rows = []
    for way, values, sign in (("read", line.read_bytes, 1), ("write", line.write_bytes, -1)):
        for at, value in enumerate(values):
            if value:
                start = line.start_s + at * line.bin_s
                end = start + line.bin_s
                rows.append({"t": start, "end": end, "rate": sign * value / line.bin_s, "way": way})
    x, y = alt.X("t:Q", title="time (s)"), alt.Y("rate:Q", title="bytes/s: read up, written down")
    bars = chart_of("line").mark_bar(clip=True).encode(
        x=x, x2="end:Q", y=y.axis(format="~s"), y2=alt.datum(0), color=_colour()
    )  # fmt: skip
    return finish(bars.properties(width=WIDTH, height=220), line=rows)


def lines_chart(profile: Profile, files: list[FileProfile]) -> Chart:
    """The times at which each file was accessed."""
    line = profile.timeline
    rows: Rows = []
    for file in files:
        for at, _, read, written in file.timeline:
            start = line.start_s + at * line.bin_s
            way = "read" if read and read >= written else "write" if written else "other calls"
            rows.append({"file": file.path, "t": start, "end": start + line.bin_s, "way": way})
    scale = alt.Scale(domain=[*WAYS, "other calls"], range=[READ, WRITE, OTHER])
    bars = chart_of("lines").mark_bar(height=9).encode(
        x=alt.X("t:Q", title="time (s)"), x2="end:Q",
        y=alt.Y("file:N", sort=[file.path for file in files], title=None, axis=alt.Axis(labelLimit=320)),
        color=alt.Color("way:N", scale=scale, legend=alt.Legend(title=None)),
    )  # fmt: skip
    return finish(bars.properties(width=WIDTH, height=alt.Step(15)), lines=rows)


def pattern_chart(picture: Picture) -> Chart:
    """Offset over time, with a mark per request or per bin."""
    axes: dict[str, Any] = {
        "x": alt.X("t:Q", title="time (s)", scale=alt.Scale(zero=False)),
        "y": alt.Y("offset:Q", title="offset (bytes)", axis=alt.Axis(format="~s")),
    }
    if picture.density is None:
        rows: Rows = [
            {"t": start / 1e9, "offset": offset, "way": WAYS[write]}
            for start, _, offset, _, write, *_ in picture.points
        ]
        shape = alt.Shape(
            "way:N",
            scale=alt.Scale(domain=list(WAYS), range=["square", "cross"]),
            legend=alt.Legend(title=None),
        )
        chart = (
            chart_of("points")
            .mark_point(size=16, filled=True, opacity=0.8)
            .encode(**axes, color=_colour(), shape=shape)
        )
        title = f"{picture.path}: {count(picture.requests)} requests"
    else:
        rows = _cells(picture)
        chart = chart_of("points").mark_rect().encode(
            **axes, x2="t2:Q", y2="offset2:Q", color=_colour(),
            opacity=alt.Opacity("requests:Q", scale=alt.Scale(type="symlog", range=[0.3, 1]), legend=None),
        )  # fmt: skip
        cells = f"{count(picture.density.columns)} × {count(picture.density.rows)} cells"
        title = f"{picture.path}: binned, {count(picture.requests)} requests in {cells}"
    return finish(chart.properties(width=WIDTH, height=360, title=title), points=rows)


def _cells(picture: Picture) -> Rows:
    """Bins as rectangles. In a bin with reads and writes, reads have the left half."""
    bins = picture.density
    if bins is None:
        return []
    sides = {"read": bins.reads, "write": bins.writes}
    occupied = {way: {cell[:2] for cell in cells} for way, cells in sides.items()}
    shared = occupied["read"] & occupied["write"]
    rows: Rows = []
    for way, cells in sides.items():
        for column, row, requests, _ in cells:
            both = (column, row) in shared
            left = column + (0.5 if both and way == "write" else 0)
            start = (bins.start_ns + left * bins.column_ns) / 1e9
            offset = bins.start_byte + row * bins.row_bytes
            rows.append(
                {
                    "t": start,
                    "t2": start + bins.column_ns * (0.5 if both else 1) / 1e9,
                    "offset": offset,
                    "offset2": offset + bins.row_bytes,
                    "requests": max(requests, 1),
                    "way": way,
                }
            )
    return rows


def histograms(file: FileProfile) -> Iterator[tuple[str, Chart]]:
    """Size, duration and speed of the requests of a file."""
    for name, title in (("size", "bytes requested"), ("duration_s", "duration (s)"), ("speed", "bytes/s")):
        rows: Rows = []
        for way, side in (("read", file.read), ("write", file.write)):
            spread: Spread | None = getattr(side, name, None)
            for bin_ in spread.histogram if spread is not None else ():
                low = bin_.from_ or bin_.to / 2
                rows.append({"from": low, "to": bin_.to, "requests": bin_.count, "way": way})
        if not rows:
            continue
        axis = alt.Axis(format=".2~s", labelOverlap=True)
        bars = chart_of("bins").mark_bar().encode(
            x=alt.X("from:Q", title=title, scale=alt.Scale(type="log", base=2), axis=axis),
            x2="to:Q", y=alt.Y("requests:Q", title="requests"), y2=alt.datum(0), color=_colour(legend=False),
            row=alt.Row("way:N", title=None, sort=list(WAYS)),
        )  # fmt: skip
        yield name.removesuffix("_s"), finish(bars.properties(width=WIDTH // 2, height=110), bins=rows)
