"""Files of other tools: which format a file has, and the figures of a run against those of the tool."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from plimsoll.assemble.compare import compare_paths, stored_runs
from plimsoll.assemble.sources import sources_of
from plimsoll.cli.results.compare import exit_code
from plimsoll.compare.model import Verdict
from plimsoll.errors import BadInput
from plimsoll.foreign.table import FORMATS, HEAD_LENGTH, format_of
from plimsoll.report.compare.comparison import comparison_lines

FILES = Path(__file__).resolve().parents[2] / "data" / "foreign"
TITLES = {
    "fio.json": "fio JSON",
    "fio-lat.log": "fio latency log",
    "jmeter.csv": "JMeter CSV",
    "jmeter.xml": "JMeter XML",
    "k6-summary.json": "k6 summary",
    "k6-handle-summary.json": "k6 summary",
    "k6.jsonl": "k6 JSON samples",
    "k6.csv": "k6 CSV samples",
    "oha.json": "oha JSON",
    "oha.csv": "oha CSV",
    "pgbench.log": "pgbench log",
    "pgbench-aggregated.log": "pgbench aggregated log",
    "vegeta.jsonl": "vegeta JSON results",
    "vegeta.csv": "vegeta CSV results",
    "vegeta-report.json": "vegeta report",
    "wrk2.txt": "wrk2 histogram",
}


def values(name: str) -> dict[str, float | None]:
    """The values of the run of a file that are known."""
    [source] = sources_of([FILES / name])
    [run] = source.read()
    return {key: value for key, value in run.values.items() if value is not None}


def quantile(ms: list[float], q: float) -> float:
    return float(np.quantile(ms, q, method="inverted_cdf"))


def test_each_format_has_a_sample_and_each_sample_matches_one_format() -> None:
    assert {path.name for path in FILES.iterdir()} == {*TITLES, "README.md"}
    assert set(TITLES.values()) == {each.title for each in FORMATS}
    for name, title in TITLES.items():
        head = (FILES / name).read_text()[:HEAD_LENGTH]
        assert [each.title for each in FORMATS if re.search(each.pattern, head)] == [title], name
    assert format_of((FILES / "README.md").read_text()) is None


def test_each_format_is_documented() -> None:
    text = (FILES.parents[2] / "docs" / "foreign-results.md").read_text()
    for each in FORMATS:
        contents = "summary" if each.is_summary else "single requests"
        assert f"| {each.title} | `{each.made_by}` | {contents} |" in text


@pytest.mark.parametrize("name", ["vegeta.jsonl", "vegeta.csv"])
def test_results_of_vegeta(name: str) -> None:
    lines = [json.loads(line) for line in (FILES / "vegeta.jsonl").read_text().splitlines()]
    ok = [line["latency"] / 1e6 for line in lines if line["code"] == 200]
    found = values(name)
    assert found["errors"] == 0.5 and len(ok) == 125
    assert found["response_p50"] == pytest.approx(quantile(ok, 0.5))
    # 100 requests a second, every second one to a missing path.
    assert found["throughput"] == pytest.approx(50, rel=0.02)
    assert "response_p95" not in found  # needs 200 successful requests


def test_a_report_of_vegeta_has_its_own_figures() -> None:
    report = json.loads((FILES / "vegeta-report.json").read_text())
    assert values("vegeta-report.json") == {
        "throughput": report["throughput"],
        "errors": 0.5,
        "response_p50": report["latencies"]["50th"] / 1e6,
        "response_p95": report["latencies"]["95th"] / 1e6,
    }


def test_a_log_of_pgbench() -> None:
    lines = [line.split() for line in (FILES / "pgbench.log").read_text().splitlines()]
    ms = [int(line[2]) / 1000 for line in lines]
    found = values("pgbench.log")
    assert found["response_p50"] == quantile(ms, 0.5) and found["response_p95"] == quantile(ms, 0.95)
    assert found["errors"] == 0 and found["throughput"] == pytest.approx(150, rel=0.15)


def test_an_aggregated_log_of_pgbench_has_the_throughput_of_its_complete_intervals() -> None:
    second = (FILES / "pgbench-aggregated.log").read_text().splitlines()[1]
    assert values("pgbench-aggregated.log") == {"throughput": float(second.split()[1])}


def test_failed_and_skipped_transactions_of_pgbench_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "log"
    words = ["failed", "skipped", "serialization", "deadlock", *["500"] * 36]
    file.write_text(
        "".join(f"0 {at} {word} 0 17958101{at:02d} 0\n" for at, word in enumerate(words, start=10))
    )
    [run] = sources_of([file])[0].read()
    assert run.values["errors"] == pytest.approx(0.1) and run.values["response_p50"] == 0.5


@pytest.mark.parametrize("name", ["jmeter.csv", "jmeter.xml"])
def test_results_of_jmeter(name: str) -> None:
    found = values(name)
    assert found["errors"] == 0.5
    if name == "jmeter.csv":
        rows = list(csv.DictReader((FILES / name).read_text().splitlines()))
        ok = [float(row["elapsed"]) for row in rows if row["success"] == "true"]
        assert len(rows) == 80 and found["response_p50"] == quantile(ok, 0.5)


def test_parts_of_a_sample_of_jmeter_are_no_requests(tmp_path: Path) -> None:
    inner = '<httpSample t="9000" ts="1000" s="false"/>'
    outer = "".join(f'<sample t="20" ts="{1000 + at}" s="true">{inner}</sample>\n' for at in range(30))
    file = tmp_path / "log.jtl"
    file.write_text(f'<?xml version="1.0"?>\n<testResults version="1.2">\n{outer}</testResults>\n')
    [run] = sources_of([file])[0].read()
    assert run.trials["errors"] == 30 and run.values["errors"] == 0 and run.values["response_p50"] == 20


def test_fio() -> None:
    # Both directions have operations, so their percentiles cannot be combined.
    jobs = json.loads((FILES / "fio.json").read_text())["jobs"]
    iops = sum(jobs[0][name]["iops"] for name in ("read", "write"))
    assert values("fio.json") == {"throughput": pytest.approx(iops, rel=1e-3), "errors": 0}
    ms = [int(line.split(",")[1]) / 1e6 for line in (FILES / "fio-lat.log").read_text().splitlines()]
    assert values("fio-lat.log")["response_p95"] == quantile(ms, 0.95)


def test_one_direction_of_fio_has_percentiles(tmp_path: Path) -> None:
    document = json.loads((FILES / "fio.json").read_text())
    document["jobs"][0]["write"]["total_ios"] = 0
    file = tmp_path / "fio.json"
    file.write_text(json.dumps(document))
    [run] = sources_of([file])[0].read()
    wanted = document["jobs"][0]["read"]["clat_ns"]["percentile"]["99.000000"] / 1e6
    assert run.values["response_p99"] == wanted


@pytest.mark.parametrize(("name", "p99"), [("k6-summary.json", 99.5), ("k6-handle-summary.json", None)])
def test_summaries_of_k6(name: str, p99: float | None) -> None:
    wanted = {"throughput": 39.6, "errors": 0.01, "response_p50": 20.5, "response_p95": 41.25}
    found = values(name)
    assert found.pop("response_p99", None) == p99 and found == pytest.approx(wanted)


def test_samples_of_k6_and_oha_are_the_same_requests() -> None:
    rows = [
        row for row in csv.DictReader((FILES / "oha.csv").read_text().splitlines()) if row["status"] == "200"
    ]
    ms = [1000 * float(row["request-duration"]) for row in rows]
    for name in ("k6.jsonl", "k6.csv", "oha.csv"):
        found = values(name)
        assert found["errors"] == 0.05 and found["throughput"] == pytest.approx(228 / 24, rel=0.05)
        assert found["response_p50"] == pytest.approx(quantile(ms, 0.5), abs=1e-5)
        assert found["response_p95"] == pytest.approx(quantile(ms, 0.95), abs=1e-5)


def test_a_report_of_oha_counts_bad_statuses_and_lost_requests_as_errors() -> None:
    found = values("oha.json")
    assert found["errors"] == 12 / 240 and found["throughput"] == 228 / 24
    percentiles = json.loads((FILES / "oha.json").read_text())["latencyPercentiles"]
    assert found["response_p95"] == 1000 * percentiles["p95"]


def test_the_histogram_of_wrk2() -> None:
    text = (FILES / "wrk2.txt").read_text()
    found = values("wrk2.txt")
    shown = {share: float(ms) for share, ms in re.findall(r"^ (50|99)\.000% +([\d.]+)ms", text, re.M)}
    assert (found["response_p50"], found["response_p99"]) == (shown["50"], shown["99"])
    p95 = re.search(r"^ +([\d.]+) +0\.950000", text, re.M)
    assert p95 and found["response_p95"] == float(p95[1])
    rate = re.search(r"^Requests/sec: +([\d.]+)", text, re.M)
    assert rate and found["throughput"] == float(rate[1]) and found["errors"] == 0


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("k6-summary.json", 5, '    "http_reqs" {', ":5: is not valid JSON"),
        ("k6-summary.json", 4, "", "metrics: has no http_reqs"),
        ("k6.jsonl", 3, '{"metric":"http_req_duration","type":"Point","data":{"value":1}}', ":3: time: Field required"),
        ("k6.csv", 3, "http_req_duration,1795806000,fast,,,,true,,,,,,,,,,,,", ":3: metric_value: expected a number"),
        ("oha.csv", 1, "request-start,DNS,status", ":1: expected a column request-duration"),
        ("oha.json", 3, '    "successRate": 1.0', ":4: is not valid JSON"),
        ("vegeta.jsonl", 7, '{"code": 200', ":7: is not valid JSON"),
        ("vegeta.csv", 7, "1795810174090305159,200,x,0,6,,,,0,GET,u,", ':7: latency: expected a number, got "x"'),
        ("vegeta.csv", 7, "1,2", ":7: expected 12 columns"),
        ("pgbench.log", 9, "0 1 fast 0 1795810190 1", ':9: time: expected a number, got "fast"'),
        ("pgbench.log", 9, "0 1", ":9: expected the columns client transaction time"),
        ("pgbench-aggregated.log", 2, "1795810193 133", ":2: expected an interval"),
        ("jmeter.csv", 5, "1,2,home,200,OK,g 1-1,text,maybe,,1,1,1,1,u,1,0,1", ":5: success: expected true or false"),
        ("jmeter.csv", 5, "1,2", ":5: expected 17 columns, got 2"),
        ("jmeter.xml", 6, "</wrong>", ":6: is not valid XML: mismatched tag"),
        ("fio-lat.log", 4, "1, 2", ":4: expected the columns time"),
        ("wrk2.txt", 60, "   nonsense", ":60: expected value, percentile and count"),
    ],
)  # fmt: skip
def test_an_error_names_file_and_line(tmp_path: Path, name: str, line: int, text: str, message: str) -> None:
    lines = (FILES / name).read_text().splitlines()
    lines[line - 1] = text
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        [source] = sources_of([file])
        source.read()
    assert str(file) in str(caught.value)


def test_a_doctype_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log.jtl"
    file.write_text('<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]>\n<testResults version="1.2"/>\n')
    with pytest.raises(BadInput, match="DOCTYPE is not allowed"):
        sources_of([file])


def test_an_unknown_file_is_refused_with_the_formats(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    with pytest.raises(BadInput, match=r"its format is not known.*k6 summary.*fio latency log"):
        sources_of([file])


def test_one_file_a_side_is_undecided_and_several_are_runs(tmp_path: Path) -> None:
    def copies(side: str, factor: float) -> list[Path]:
        paths = []
        for at in range(6):
            report = json.loads((FILES / "vegeta-report.json").read_text())
            for name in ("50th", "95th"):
                report["latencies"][name] = round(report["latencies"][name] * factor * (1 + 0.002 * at))
            paths.append(tmp_path / f"{side}{at}.json")
            paths[-1].write_text(json.dumps(report))
        return paths

    old, new = copies("old", 1.0), copies("new", 1.2)
    single = compare_paths(old[:1], new[:1], 0.03)
    assert {one.verdict for one in single.comparisons} == {Verdict.UNDECIDED} and exit_code(single) == 0
    result = compare_paths(old, new, 0.03)
    verdicts = {one.metric: one.verdict for one in result.comparisons}
    assert verdicts["response_p50"] is verdicts["response_p95"] is Verdict.SLOWER and exit_code(result) == 99
    text = "\n".join(comparison_lines(result, 100))
    assert "vegeta report: a summary for each run" in text
    # A side of imported files can be stored, too.
    assert len(stored_runs(old)) == 6


def test_files_of_different_formats_are_not_comparable_unless_accepted() -> None:
    paths = [FILES / "vegeta.csv"], [FILES / "vegeta-report.json"]
    refused = compare_paths(*paths, 0.03)
    assert exit_code(refused) == 97 and [one.path for one in refused.differences] == ["format"]
    assert compare_paths(*paths, 0.03, ["format"]).is_comparable


def test_a_file_and_a_results_directory_are_not_of_one_experiment() -> None:
    with pytest.raises(
        BadInput, match=r'contains the experiment "small".*results of another tool \(vegeta report'
    ):
        compare_paths([FILES.parent / "results-v1"], [FILES / "vegeta-report.json"], 0.03)
