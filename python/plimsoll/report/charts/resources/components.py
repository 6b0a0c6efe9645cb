"""Time series of the components of one run: for each, its CPU, memory, disk and network, and its main counters.

The page draws the same strips for each component of the selected run, from the frame of one strip. The time axes are
those of the time series of the testers: seconds since the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.component_series import ComponentSeries, Values
from plimsoll.analyse.results.wording import Kind, scale
from plimsoll.report.charts import marks
from plimsoll.report.charts.marks import ACTIONS, CHANGES, CUT, mark_rows
from plimsoll.report.charts.series import MAX_POINTS, MIN_EXTENT, thin
from plimsoll.report.charts.theme import INK, WIDTH, Chart, Rows, chart_of, finish

LINES: Final = "lines"
TITLE: Final = "TITLE"
"""Placeholder in the frame of the page for the title of a strip."""
HEIGHT: Final = 60
SMALL: Final = 40
"""Height of a strip with a single line that needs no legend."""
_CPU: Final = {"user": 0.75, "system": 0.5, "iowait": 0.28, "steal": 0.12}
_SESSIONS: Final = {"running": 0.12, "other waits": 0.25, "I/O": 0.4, "internal locks": 0.6, "locks": 0.9}
SHADES: Final = {**_CPU, **_SESSIONS}
"""Opacities of parts of a whole, from the bottom of the stack on."""
_WAITS: Final = {
    **dict.fromkeys(("CPU", "state"), "running"),
    "IO": "I/O",
    **dict.fromkeys(("LWLock", "Synch", "BufferPin"), "internal locks"),
    "Lock": "locks",
}
"""Parts by the types of waits; all other types are other waits."""
DASHES: Final = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
_STATES: Final = {f"cpu_{state}": state for state in _CPU}
_TRANSFERS: Final = {
    "disk_read": "disk read",
    "disk_write": "disk written",
    "network_in": "network in",
    "network_out": "network out",
}
_QUEUES: Final = {"run_queue": "tasks ready", "disk_queue": "at disks", "listen_queue": "to accept"}
_LOST: Final = {
    "listen_drops": "requests dropped",
    "syn_retransmits": "SYN repeated",
    "packet_drops": "packets dropped",
}
MIN_QUEUE: Final = 0.5
"""Queues that are always shorter are not drawn."""


@dataclass(frozen=True)
class Strip:
    """One narrow chart of a component. `lines`: names and values in the unit of `title`; `is_stacked`: they are parts
    of a whole, drawn as areas on top of each other."""

    title: str
    lines: dict[str, Values]
    is_stacked: bool = False

    @property
    def has_legend(self) -> bool:
        """Whether the lines need names: the title names a single line of CPU or memory."""
        return not {"memory", "in use"} & set(self.lines)


def strips(component: ComponentSeries) -> tuple[Strip, ...]:
    """The strips of a component: CPU, memory, disk and network, queues, what was dropped, sessions, counters. Lines
    that are zero in the whole run are left out, except for requests; so are strips without lines."""
    resources = component.resources
    states = {word: resources[name] for name, word in _STATES.items() if name in resources}
    states = {word: values for word, values in states.items() if any(values) or word == "user"}
    cpu = states or ({"in use": resources["cpu"]} if "cpu" in resources else {})
    memory = {"memory": resources["memory"]} if "memory" in resources else {}
    transfers = {word: resources[name] for name, word in _TRANSFERS.items() if any(resources.get(name) or ())}
    queues = {
        word: resources[name]
        for name, word in _QUEUES.items()
        if any(value is not None and value >= MIN_QUEUE for value in resources.get(name, ()))
    }
    lost = {word: resources[name] for name, word in _LOST.items() if any(resources.get(name, ()))}
    counters = {
        name: values
        for name, values in component.counters.items()
        if any(values) or name == component.request_counter
    }
    found = (
        Strip("CPU (cores)", cpu, is_stacked=bool(states)),
        _scaled("memory", memory, "bytes"),
        _scaled("transfer", transfers, "bytes_rate"),
        Strip("waiting", queues),
        Strip("events/s", lost),
        Strip("active sessions", _sessions(component), is_stacked=True),
        Strip("counted/s", counters),
    )
    return tuple(strip for strip in found if strip.lines)


def _sessions(component: ComponentSeries) -> dict[str, Values]:
    """Sums of the sessions by part, without parts that are zero in the whole run."""
    parts: dict[str, list[Values]] = {}
    for kind, values in component.sessions.items():
        parts.setdefault(_WAITS.get(kind, "other waits"), []).append(values)
    summed = {name: tuple(map(_sum, zip(*parts[name], strict=True))) for name in _SESSIONS if name in parts}
    return {name: values for name, values in summed.items() if any(values)}


def _sum(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return float(f"{sum(known):.4g}") if known else None


def _scaled(title: str, lines: dict[str, Values], kind: Kind) -> Strip:
    """The strip with values in a unit that suits the greatest of them."""
    known = [value for values in lines.values() for value in values if value is not None]
    factor, unit = scale(max(known, default=0.0), kind)
    scaled = {
        name: tuple(None if value is None else float(f"{value * factor:.4g}") for value in values)
        for name, values in lines.items()
    }
    return Strip(f"{title} ({unit})", scaled)


def component_title(component: ComponentSeries) -> str:
    """Name and kind of a component, such as `db, postgres on db1`."""
    what = {"service": component.system, "watched": component.system, "host": "host", "testers": ""}
    kind = what[component.kind]
    words = f"{component.component}, {kind}" if kind and kind != component.component else component.component
    is_elsewhere = component.host and component.host not in component.component
    return f"{words} on {component.host}" if is_elsewhere else words


def is_folded(component: ComponentSeries) -> bool:
    """Whether the page folds the component: the testers, and a host that has no service and is not that of the lab."""
    return component.kind == "testers" or (component.kind == "host" and bool(component.host))


def line_rows(strip: Strip, quantum_s: float, most: int = MAX_POINTS) -> Rows:
    """One row per line and bin. Bins without a value have a row without one, so that the line is interrupted."""
    return [
        {"t": t, "value": value, "name": name}
        for name, values in strip.lines.items()
        for t, value in thin(values, quantum_s, most)
    ]


def chart(run: RunResult) -> Chart | None:
    """The strips of all components of a run, below each other; None without components."""
    series = run.component_series
    if series is None:
        return None
    datasets: dict[str, Rows] = {}
    parts = []
    shown = [(component, strips(component)) for component in series.components]
    for component, found in ((component, found) for component, found in shown if found):
        layers = []
        for at, strip in enumerate(found):
            name = f"{LINES}-{len(datasets)}"
            datasets[name] = line_rows(strip, series.quantum_s)
            layers.append(strip_frame(name, strip, bare=at < len(found) - 1))
        title = alt.TitleParams(component_title(component), fontSize=13, fontWeight="bold")
        resolve = alt.Resolve(
            scale=alt.ScaleResolveMap(x="shared", strokeDash="independent", opacity="independent")
        )
        parts.append(alt.vconcat(*layers, title=title, spacing=8, resolve=resolve))
    return finish(alt.vconcat(*parts), **datasets, **mark_rows(run)) if parts else None


def strip_frame(dataset: str, strip: Strip, *, bare: bool) -> Chart:
    """One strip over the shaded warm-up and the actions. `bare`: without labels of the time axis."""
    lines = (_areas if strip.is_stacked else _lines)(dataset, strip, bare)
    behind = (marks.shade(bare=True), *marks.actions(bare=True))
    height = HEIGHT if strip.has_legend else SMALL
    # The marks of actions and changes have an opacity of their own, without a legend.
    resolve = alt.Resolve(scale=alt.ScaleResolveMap(opacity="independent"))
    return alt.layer(
        *behind, lines, marks.changes(bare=True), width=WIDTH - 20, height=height, resolve=resolve
    )


def frame(*, stacked: bool) -> Chart:
    """A strip without rows, for the page: it replaces TITLE, the dataset LINES, the height, and the legend."""
    drawn = strip_frame(LINES, Strip(TITLE, dict.fromkeys(SHADES, ()), stacked), bare=False)
    return finish(drawn, **{name: [] for name in (LINES, CUT, ACTIONS, CHANGES)})


def _lines(dataset: str, strip: Strip, bare: bool) -> alt.Chart:
    legend = alt.Legend(title=None, symbolOpacity=1) if strip.has_legend else None
    dash = alt.StrokeDash("name:N", sort=None, scale=alt.Scale(range=DASHES), legend=legend)
    drawn: alt.Chart = (
        chart_of(dataset)
        .mark_line(strokeWidth=1.5, color=INK, interpolate="step-after")
        .encode(
            x=_time(bare),
            y=alt.Y("value:Q", title=strip.title, axis=_axis(), scale=alt.Scale(zero=True)),
            strokeDash=dash,
            tooltip=_tooltip(strip.title),
        )
    )
    return drawn


def _areas(dataset: str, strip: Strip, bare: bool) -> alt.Chart:
    """Parts of a whole on top of each other, in shades: a colour stands for a combination of factors."""
    shade = alt.Opacity(
        "name:O",
        sort=None,
        # Not the default, a point scale: it has only the ends of a range.
        scale=alt.Scale(
            type="ordinal", domain=list(strip.lines), range=[SHADES[name] for name in strip.lines]
        ),
        legend=alt.Legend(title=None, symbolType="square", symbolFillColor=INK, symbolStrokeWidth=0),
    )
    drawn: alt.Chart = (
        chart_of(dataset)
        .transform_calculate(order=f"indexof({list(SHADES)}, datum.name)")
        .mark_area(color=INK, opacity=1, interpolate="step-after")
        .encode(
            x=_time(bare),
            y=alt.Y("value:Q", title=strip.title, axis=_axis(), stack="zero", scale=alt.Scale(zero=True)),
            opacity=shade,
            order="order:Q",
            tooltip=_tooltip(strip.title),
        )
    )
    return drawn


def _time(bare: bool) -> alt.X:
    return alt.X(
        "t:Q",
        title=None,
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(grid=False, format=",~f", tickCount=8, labels=not bare),
    )


def _axis() -> alt.Axis:
    return alt.Axis(format=",~f", tickCount=2, titleFontSize=11, minExtent=MIN_EXTENT)


def _tooltip(title: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("name:N", title=title),
        alt.Tooltip("t:Q", title="time (s)", format=",.3~r"),
        alt.Tooltip("value:Q", title="value", format=",.3~r"),
    ]
