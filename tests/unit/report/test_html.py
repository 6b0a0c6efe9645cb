"""The page is self-contained, loads nothing, and has a table for every chart."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.golden.fixture import HOSTILE, designed, empty, make_run, set_up, single

from plimsoll.analyse.answer.compose import sentences
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.verdicts import Finding, Topic
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.html import render
from plimsoll.report.page_data import MAX_RUNS, for_script, packed
from plimsoll.report.setup.setup import SetUp
from plimsoll.report.tables.resources.machine import flat, hosts
from plimsoll.report.tables.table import table_of
from plimsoll.report.template import PACKAGE, page_template
from plimsoll.report.terminal import summary_lines

STUB = "window.vegaEmbed = async () => {};"
CASES: dict[str, Callable[[], Analysis]] = {
    "designed": designed,
    "once": lambda: designed(repetitions=1),
    "single": single,
    "empty": empty,
    "unfinished": lambda: designed(finished=7),
    "hostile": lambda: designed(hostile=True),
}


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, texts of scripts, ids, links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs)

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self) -> dict[str, Any]:
        (text,) = [text for attributes, text in self.scripts if attributes.get("id") == "plimsoll-data"]
        data: dict[str, Any] = json.loads(text)
        return data


def page(analysis: Analysis, setup: SetUp | None = None) -> Page:
    return Page(render(analysis, setup or set_up(), bundle=STUB))


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_a_page_with_its_parts(case: str) -> None:
    shown = page(CASES[case]())
    ids = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in shown.all("a")]
    assert links
    assert all(link is not None and link.startswith("#") and link[1:] in ids for link in links)
    assert len(shown.scripts) == 3


@pytest.mark.parametrize("case", CASES)
def test_nothing_can_be_fetched(case: str) -> None:
    text = render(CASES[case](), set_up(case == "hostile"), bundle=STUB)
    shown = Page(text)
    assert not [
        tag for tag, _ in shown.elements if tag in {"img", "iframe", "object", "embed", "base", "form"}
    ]
    fetching = [
        value for _, attributes in shown.elements for name, value in attributes.items() if name == "src"
    ]
    assert fetching == []
    assert [link["href"][:5] for link in shown.all("link") if link["href"]] == ["data:"]
    policy = next(
        meta["content"] for meta in shown.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "url(" not in text


def test_the_policy_names_exactly_our_scripts() -> None:
    shown = page(designed())
    policy = next(meta["content"] for meta in shown.all("meta") if meta.get("http-equiv"))
    run = [text for attributes, text in shown.scripts if attributes.get("type") != "application/json"]
    hashes = {f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run}
    assert policy is not None
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert "'unsafe-inline'" not in policy.split("style-src")[0]


def test_hostile_texts_are_shown_and_never_elements() -> None:
    text = render(designed(hostile=True), set_up(hostile=True), bundle=STUB)
    assert HOSTILE not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    shown = Page(text)
    assert not any(name.startswith("on") for _, attributes in shown.elements for name in attributes)
    assert len(shown.all("script")) == 3
    assert HOSTILE in json.dumps(shown.data)


def test_back_ticks_in_sentences_mark_code() -> None:
    finding = Finding(Topic.REPETITIONS, "All runs shared it (`fresh: experiment`), not `<img>`.")
    text = render(replace(designed(), findings=(finding,)), set_up(), bundle=STUB)
    assert "All runs shared it (<code>fresh: experiment</code>), not <code>&lt;img&gt;</code>." in text


def test_back_ticks_of_a_value_stay() -> None:
    table = table_of("T", "Statement|Why", "", [("SELECT `a`", "run `plimsoll collect`")])
    source = '{% from "table.html" import table_of %}{{ table_of(table) }}'
    text = page_template(PACKAGE, "table.html").environment.from_string(source).render(table=table)
    assert ">SELECT `a`</td>" in text
    assert ">run <code>plimsoll collect</code></td>" in text


def test_every_chart_has_a_table_an_alternative_text_and_a_place() -> None:
    shown = page(designed())
    charts = [chart for chart in shown.all("div") if chart.get("class") == "chart"]
    keys = {str(chart["id"]).removeprefix("chart-") for chart in charts}
    assert all(chart.get("role") == "img" and len(chart.get("aria-label") or "") > 20 for chart in charts)
    assert keys == {*shown.data["figures"], "series", "testers"}
    assert keys >= {
        "throughput",
        "response",
        "distribution",
        "errors",
        "utilization",
        "fairness",
        "effects-1",
        "order",
    }
    assert len(shown.all("figure")) == len(charts)
    assert len(shown.all("table")) >= len(charts)


def test_unfinished_says_so_far_first() -> None:
    text = render(designed(finished=7), set_up(), bundle=STUB)
    assert text.index("So far: 7 of 24 runs.") < text.index('class="answer"')
    assert text.count("So far: 7 of 24 runs.") == 1


def test_the_answer_precedes_every_figure() -> None:
    text = render(designed(), set_up(), bundle=STUB)
    assert text.index("has the highest throughput") < text.index("<figure")
    assert text.index("How many requests") < text.index("has the highest throughput")


def test_the_set_up_is_there_in_full() -> None:
    text = render(designed(), set_up(), bundle=STUB)
    for part in ("net.core.somaxconn", "4096", "Xeon 2.8 GHz", "8 GB", "rows: 10000", "runs/0001/transactions.parquet",
                 "1.2 MB", "seed of design", "20061", "plimsoll run quickstart.yaml", "warmup: 4s"):  # fmt: skip
        assert part in text, part


def test_flat_names_every_leaf() -> None:
    tree = {"a": {"b_bytes": 1000, "c": [1, 2]}, "d": None, "e": True, "disks": [{"n": 1}]}
    assert flat(tree) == [("a b", "1 kB"), ("a c", "1, 2"), ("e", "yes"), ("disks 1 n", "1")]


def test_an_empty_set_up_and_absent_values_break_nothing() -> None:
    analysis = designed()
    bare = tuple(
        replace(
            run, series=None, ecdf=None, testers=(), utilization=(), jain_index=None, evidence={}, peak=None
        )
        for run in analysis.runs
    )
    cells = tuple(
        replace(cell, responses={}, error_rate=None, error_rate_upper=None) for cell in analysis.cells
    )
    text = render(
        replace(analysis, runs=bare, cells=cells, saturation=(), models=(), effects=()), SetUp(), bundle=STUB
    )
    assert "Set-up" in text


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_break_nothing(odd: float) -> None:
    analysis = designed()
    broken = tuple(
        replace(
            run,
            evidence={"succeeded": odd, "tester_cpu": odd},
            jain_index=odd,
            traffic=replace(run.traffic, throughput_per_s=odd, throughput_interval=Interval(odd, odd, odd)),
            utilization=tuple(replace(usage, mean=odd, low=odd, high=odd) for usage in run.utilization),
        )
        for run in analysis.runs
    )
    cells = tuple(
        replace(cell, responses={name: Interval(odd, odd, odd) for name in cell.responses}, error_rate=odd)
        for cell in analysis.cells
    )
    whole = replace(analysis, runs=broken, cells=cells)
    assert "plimsoll-data" in render(whole, set_up(), bundle=STUB)
    assert summary_lines(whole)
    assert sentences(whole)


def test_of_many_runs_some_are_embedded_and_the_page_states_it() -> None:
    analysis = designed()
    runs = tuple(make_run(n, {"zip level": "0", "testers": "4"}, 1 + n // 10) for n in range(1, 101))
    text = render(replace(analysis, runs=runs), set_up(), bundle=STUB)
    shown = Page(text)
    assert len(shown.data["runs"]) == MAX_RUNS
    assert "leaves out the series of 40 more runs" in text
    assert len(text) < 1_500_000


def test_data_of_a_script_cannot_end_it() -> None:
    text = for_script({"</script>": "<!-- \u2028 & \ud7ff"})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"</script>": "<!-- \u2028 & \ud7ff"}


def test_rows_are_packed_by_column_with_their_gaps() -> None:
    rows = [{"a": "x", "v": 1.0}, {"a": "y", "v": float("nan")}, {"a": "x", "w": 2}]
    assert packed(rows) == {
        "a": {"k": ["x", "y"], "i": [0, 1, 0]},
        "v": [1.0, None, None],
        "w": [None, None, 2],
    }
    assert packed([]) == {}


def test_a_threshold_not_judged_yet_is_neither_good_nor_bad() -> None:
    analysis = designed(finished=7)
    open_one = replace(
        analysis.verdicts[1], observed=None, judged=False, reason="not judged yet: none so far"
    )
    page = render(replace(analysis, verdicts=(analysis.verdicts[0], open_one)), SetUp(), bundle=STUB)
    listed = page.split('<ul class="verdicts"')[1].split("</ul>")[0]
    assert re.findall(r'<b class="(\w+)">(.)</b>', listed) == [("good", "✓"), ("open", "–")]
    assert "not judged yet" in listed


def test_the_facts_of_one_run_and_of_several() -> None:
    def facts(analysis: Analysis) -> str:
        return render(analysis, SetUp(), bundle=STUB).split('<p class="facts">')[1].split("</p>")[0]

    valid = single()
    assert facts(valid).endswith("1 of 1 run · 1 repetition · valid")
    bad = replace(valid.runs[0], valid=False, doubtful_reasons=("x",))
    assert facts(replace(valid, runs=(bad,))).endswith("1 repetition · invalid")
    assert "1 invalid · 1 doubtful" in facts(designed())


def with_open_load(analysis: Analysis, which: Callable[[int], str]) -> Analysis:
    """The analysis with open loads in some of its runs, by their place."""
    runs = tuple(replace(run, open_load=which(at)) for at, run in enumerate(analysis.runs))  # type: ignore[arg-type]
    return replace(analysis, runs=runs)


def test_open_loads_have_no_fairness() -> None:
    """No figure where all are open; where some are, the figure says what it leaves out, and the selector why."""
    every = render(with_open_load(designed(), lambda at: "all"), SetUp(), bundle=STUB)
    for absent in ('id="fairness"', 'id="figure-testers"', "Jain&#39;s index 0."):
        assert absent not in every
    data = page_data_of(every)["runs"]
    assert all("its testers are slots" in run["facts"] and run["testers"] == {} for run in data.values())
    analysis = with_open_load(designed(), lambda at: "all" if at % 2 else "none")
    half = render(analysis, SetUp(), bundle=STUB)
    assert "Runs of an open load are left out: testers of an open load are slots" in half
    drawn = page_data_of(half)["figures"]["fairness"]["data"]["fairness"]["run"]["k"]
    closed = {
        run.id for run in analysis.runs if run.open_load == "none" and run.valid and len(run.testers) > 1
    }
    assert set(drawn) == closed
    assert 'id="figure-testers"' in half
    table = half.split('id="figure-fairness"')[1].split("</table>")[0]
    assert len(re.findall("<tr>", table)) - 1 == sum(
        run.open_load == "none" and len(run.testers) > 1 for run in analysis.runs
    )


def page_data_of(page: str) -> dict[str, Any]:
    """The data that the page's script draws from."""
    data: dict[str, Any] = json.loads(page.split('id="plimsoll-data">')[1].split("</script>")[0])
    return data


def test_hosts_are_a_table_with_a_row_each() -> None:
    facts = {
        "cores": 2,
        "memory_bytes": 4_000_000_000,
        "kernel": "6.1",
        "limits": {"open_files": 1024},
        "rtt_ns": {"min": 59_804_219},
        "clock": {"bound_ns": 29_811_580, "same": False},
        "baseline": None,
    }
    environment = {
        "hosts": [
            {
                "name": "lyon-1",
                "site": "lyon",
                "role": "testers",
                "reason": "",
                "remarks": [],
                "facts": facts,
            },
            {"name": "dead", "site": "lyon", "role": "testers", "reason": "no answer", "facts": None},
        ]
    }
    [table] = hosts(environment)
    heads = [column.name for column in table.columns]
    assert heads == [
        *("Host", "Site", "Role", "Kernel", "Left out"),
        *("Cores", "Memory", "Open files", "Round trip", "Clock within"),
    ]
    assert table.rows[0][5:] == ("2", "4 GB", "1,024", "59.8\u00a0ms", "29.8\u00a0ms")
    assert table.rows[1] == ("dead", "lyon", "testers", "", "no answer", "", "", "", "", "")
    assert hosts({}) == hosts({"hosts": []}) == ()
