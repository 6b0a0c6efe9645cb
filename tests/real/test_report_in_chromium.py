"""The report opened in headless Chromium: every chart drawn, not a word on the console, not a byte from the network."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.deploy.perf.stacks import Profile
from plimsoll.report.compare.history_page import history_page
from plimsoll.report.flames.flames import ServiceProfile
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.page_data import chosen_runs, component_data, first_run
from tests.conftest import missing
from tests.golden.fixture import designed, empty, set_up, single
from tests.unit.report.test_history import made as made_history
from tests.unit.versioned import analysed

FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--window-size=1300,2000",
    "--disable-domain-reliability",
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints,MediaRouter",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # what the browser wants for itself gets nowhere either
    "--enable-logging=stderr",
    "--virtual-time-budget=60000",
)


def nothing_valid() -> Analysis:
    """Every run failed: as an experiment looks whose target answers rubbish."""
    analysis = designed()
    runs = tuple(replace(run, valid=False, invalid_reasons=("nothing succeeded",)) for run in analysis.runs)
    cells = tuple(
        replace(cell, valid=0, responses={}, error_rate=None, error_rate_upper=None)
        for cell in analysis.cells
    )
    return replace(analysis, runs=runs, cells=cells, saturation=(), models=(), effects=())


def half_open() -> Analysis:
    """Open loads in one of two repetitions: the figure of the testers is there, and hidden where there are no users."""
    analysis = designed()
    runs = (replace(run, open_load="all") if run.repetition == 2 else run for run in analysis.runs)
    return replace(analysis, runs=tuple(runs))


CASES: dict[str, Callable[[], Analysis]] = {
    "designed": designed,
    "single": single,
    "unfinished": lambda: designed(finished=7),
    "hostile": lambda: designed(hostile=True),
    "empty": empty,
    "nothing-valid": nothing_valid,
    "half-open": half_open,
    "versions": analysed,
}


@dataclass(frozen=True)
class Seen:
    """The document when its scripts had run (without them), the console, and what was asked of a network."""

    document: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


def browser() -> str:
    """The program of the browser; the test is skipped (fails in CI) where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        missing("chromium", "install the package chromium")
    return found


def opened(page: Path, scratch: Path) -> Seen:
    """The page opened from disk with an empty profile."""
    log = scratch / "net.json"
    done = subprocess.run(
        [browser(), *FLAGS, f"--user-data-dir={scratch / 'profile'}", f"--log-net-log={log}",
         "--net-log-capture-mode=Everything", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    console = tuple(line for line in done.stderr.splitlines() if ":CONSOLE" in line)
    document = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    return Seen(document, console, requests(json.loads(log.read_text(encoding="utf-8"))))


def requests(log: dict[str, Any]) -> tuple[str, ...]:
    """Addresses that the page asked for over a network (file: and data: are none), by the browser's own log.

    The browser looks for updates of its own, whatever its flags: those requests have no origin as initiator.
    """
    found = set()
    for event in log["events"]:
        params = event.get("params", {})
        url, initiator = params.get("url"), params.get("initiator")
        outside = isinstance(url, str) and re.match(r"(https?|wss?|ftp)://", url)
        if outside and initiator is not None and initiator != "not an origin":
            found.add(url)
    return tuple(sorted(found))


LONG_CASES = ("single", "unfinished", "nothing-valid", "half-open", "versions")


def open_components(analysis: Analysis) -> int:
    """The components of the first run whose charts are drawn without a click: the script creates them."""
    labels = Labels(analysis)
    run = first_run(labels, chosen_runs(labels))
    return 0 if run is None else sum(each["open"] for each in component_data(run, points=100))


def opened_report(case: str, scratch: Path) -> Seen:
    """The report of a case in the browser; fails if a chart is missing or something was requested."""
    page = scratch / "report.html"
    analysis = CASES[case]()
    page.write_text(render(analysis, set_up(case == "hostile")), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    charts = (
        text.count('<div class="chart"') - text.count('<details class="later">') + open_components(analysis)
    )
    seen = opened(page, scratch)
    assert seen.console == ()
    assert seen.requests == ()
    assert seen.document.count('<details class="component" open=""') == open_components(analysis)
    assert f'data-charts="{charts}"' in seen.document
    assert seen.document.count("<svg") >= charts + 1
    assert seen.document.count('data-drawn="yes"') == charts
    assert "could not be drawn" not in seen.document
    assert "<img" not in seen.document
    return seen


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=pytest.mark.long) if each in LONG_CASES else each for each in CASES]
)
def test_the_report_opens_from_disk(case: str, tmp_path: Path) -> None:
    seen = opened_report(case, tmp_path)
    if case == "designed":  # One page for all checks: it takes the browser some seconds.
        check_numbers_of_the_run(seen.document)
        check_key_figures(seen.document)


def check_numbers_of_the_run(document: str) -> None:
    table = document.split('id="table-series"')[1].split("</table>")[0]
    assert table.count("<tr>") == 25  # a head and 24 quanta
    assert re.search(r'id="run-facts" aria-live="polite">Run \d+: valid', document)


def check_key_figures(document: str) -> None:
    """They stand above the answer."""
    band = document.split('<dl class="key"')[1].split("</dl>")[0]
    names = re.findall(r"<dt>([^<]+)</dt>", band)
    assert {
        "Nominal capacity",
        "Usable capacity",
        "Response time, p95",
        "Errors",
        "Bottleneck",
        "Validity",
    } <= set(names)
    assert "1,453 ± 26\u00a0requests/s" in band.replace("&nbsp;", "\u00a0")
    order = [document.index(part) for part in ('<dl class="key"', 'id="answer"', 'aria-label="Contents"')]
    assert order == sorted(order)


@pytest.mark.long
def test_a_history_opens_from_disk(tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    page.write_text(history_page(made_history()), encoding="utf-8")
    seen = opened(page, tmp_path)
    assert seen.console == () and seen.requests == ()
    assert 'data-charts="8"' in seen.document and seen.document.count('data-drawn="yes"') == 8


OPEN_ALL = """
(async function () {
  const wait = async (done) => { while (!done()) await new Promise((next) => setTimeout(next, 50)); };
  await wait(() => document.documentElement.dataset.charts);
  const later = Array.from(document.querySelectorAll("details.later"));
  for (const each of later) each.open = true;
  await wait(() => later.every((each) => each.querySelector("[data-drawn=yes]")));
  const root = document.documentElement;
  const wide = Array.from(document.querySelectorAll(".chart svg.marks"))
    .filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1).length;
  console.log("SEEN later " + later.length + " width " + root.clientWidth + " of " + root.scrollWidth + " cut " + wide);
})();
"""
"""What a reader does who opens all charts, and what of them is beyond the edge of the page."""


@pytest.mark.parametrize("width", [420, pytest.param(1300, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "case", ["designed", *(pytest.param(each, marks=pytest.mark.long) for each in ("single", "hostile"))]
)
def test_nothing_is_cut_off_at_the_edge_of_a_page(case: str, width: int, tmp_path: Path) -> None:
    """In a frame of that width: a window of the browser is at least 500 pixels wide."""
    inner = tmp_path / "inner.html"
    analysis = CASES[case]()
    samples = Profile({("app", "main", "parse"): 3, ("app", "main", "<b>" * 100): 5}, 99, 0.0, 4.0)
    profiles = [ServiceProfile(run.id, "gate", samples) for run in analysis.runs]
    text = render(analysis, set_up(case == "hostile"), profiles)
    assert text.count('class="flame"') >= 1
    inner.write_text(with_script(text, OPEN_ALL), encoding="utf-8")
    page = tmp_path / "outer.html"
    frame = f'<iframe src="{inner.as_uri()}" width="{width}" height="3000" style="border:0"></iframe>'
    page.write_text(f"<!DOCTYPE html><title>x</title><body style='margin:0'>{frame}", encoding="utf-8")
    seen = opened(page, tmp_path)
    assert len(seen.console) == 1, seen.console
    found = re.search(r"SEEN later (\d+) width (\d+) of (\d+) cut (\d+)", seen.console[0])
    assert found is not None, seen.console
    later, shown, whole, cut = map(int, found.groups())
    assert later == text.count('<details class="later">')
    assert (shown, whole, cut) == (width, width, 0)


CHOOSE = """
(async function () {
  const wait = async (done) => { while (!done()) await new Promise((next) => setTimeout(next, 50)); };
  const shapes = () => Array.from(document.querySelectorAll(CHARTS), (path) => path.getAttribute("d")).join();
  const picker = document.getElementById("run-picker"), table = document.getElementById("table-series");
  await wait(() => document.documentElement.dataset.charts);
  const drawn = shapes(), told = table.textContent;
  picker.value = RUN;
  picker.dispatchEvent(new Event("change"));
  await wait(() => shapes() !== drawn && table.textContent !== told);
  document.documentElement.dataset.chosen = picker.value;
})();
"""
"""What a reader does who chooses a run, and waits for its charts."""


def with_script(page: str, script: str) -> str:
    """A copy of the report with one more script, which its policy then lets run."""
    token = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = page.replace("script-src ", f"script-src 'sha256-{token}' ", 1)
    head, end, tail = allowed.rpartition("</body>")
    return f"{head}<script>{script}</script>{end}{tail}"


def shapes(document: str, chart: str) -> list[str]:
    """The lines and bars of a chart."""
    drawn = document.split(f'id="chart-{chart}"')[1].split("</figure>")[0]
    return re.findall(r'<path[^>]* d="([^"]+)"', drawn)


def choosing(page: str, run: str) -> str:
    """A copy of the report in which a reader chooses this run."""
    charts = '"#chart-series path"'
    return with_script(page, CHOOSE.replace("RUN", f'"{run}"').replace("CHARTS", charts))


@pytest.mark.long
def test_another_run_is_chosen(tmp_path: Path) -> None:
    """Its numbers and its charts come in the place of the first one's: the same as where it is the first."""
    page = tmp_path / "report.html"
    analysis = designed()
    own = (
        replace(run, metrics=(NamedMetric("wait_s", run.order, 1.0, None, None, None, 2.0),))
        for run in analysis.runs
    )
    text = render(replace(analysis, runs=tuple(own)), set_up())
    runs = re.findall(r'<option value="(\d+)"( selected)?>', text)
    first, other = next(run for run, on in runs if on), next(run for run, on in reversed(runs) if not on)
    page.write_text(text, encoding="utf-8")
    before = opened(page, tmp_path)
    moved = text.replace(f'"{first}" selected', f'"{first}"').replace(f'"{other}">', f'"{other}" selected>')
    page.write_text(moved, encoding="utf-8")
    wanted = opened(page, tmp_path)
    page.write_text(choosing(text, other), encoding="utf-8")
    seen = opened(page, tmp_path)
    assert (seen.console, seen.requests) == ((), ())
    assert f'data-chosen="{other}"' in seen.document
    for part, end in (
        ("run-facts", "</p>"),
        ("table-series", "</table>"),
        ("table-testers", "</table>"),
        ("run-tables", "</section>"),
    ):
        told = [one.document.split(f'id="{part}"')[1].split(end)[0] for one in (seen, before, wanted)]
        assert told[0] != told[1]
        assert told[0] == told[2]
    for chart in ("series", "testers"):
        assert shapes(seen.document, chart) == shapes(wanted.document, chart)
        assert shapes(seen.document, chart) != shapes(before.document, chart)


@pytest.mark.long
def test_an_open_run_that_is_chosen_shows_no_shares(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    analysis = half_open()
    text = render(analysis, set_up())
    other = next(run.id for run in analysis.runs if run.open_load == "all")
    page.write_text(choosing(text, other), encoding="utf-8")
    seen = opened(page, tmp_path)
    assert (seen.console, seen.requests) == ((), ())
    assert f'data-chosen="{other}"' in seen.document
    assert 'id="figure-testers" hidden=""' in seen.document
    assert "its testers are slots, not users" in seen.document


def test_a_chart_that_cannot_be_drawn_is_noticed(tmp_path: Path) -> None:
    """The test of the test: a broken page is seen as one."""
    page = tmp_path / "report.html"
    broken = render(designed(), set_up()).replace('"mark":{"type":"line"', '"mark":{"type":"nothing"')
    page.write_text(broken, encoding="utf-8")
    seen = opened(page, tmp_path)
    assert seen.console != ()


def test_a_request_would_be_seen(tmp_path: Path) -> None:
    """The test of the other half: a page that fetches is caught, and the report's policy stops it."""
    fetching = "<img src=http://127.0.0.1:9/image><script>fetch('http://127.0.0.1:9/fetched')</script>"
    page = tmp_path / "other.html"
    page.write_text(f"<!DOCTYPE html><title>x</title>{fetching}", encoding="utf-8")
    assert opened(page, tmp_path).requests == ("http://127.0.0.1:9/fetched", "http://127.0.0.1:9/image")
    page.write_text(render(empty(), set_up()).replace("</main>", f"{fetching}</main>"), encoding="utf-8")
    assert opened(page, tmp_path).requests == ()


@pytest.mark.long
def test_a_script_that_slipped_in_does_not_run(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    text = render(single(), set_up()).replace(
        "</main>",
        '<script>document.title="taken"</script><img src=x onerror=\'document.title="taken"\'></main>',
    )
    page.write_text(text, encoding="utf-8")
    seen = opened(page, tmp_path)
    assert "<title>taken" not in seen.document
    assert any("Content Security Policy" in line for line in seen.console)
