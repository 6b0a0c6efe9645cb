"""`from_log` of the driver `http`, and values of a file by Zipf's law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan.design.filling import fillings
from plimsoll.plan.engine import engine_document
from plimsoll.plan.plan import make_plan

FILE = """
plimsoll: 1
services: {web: {kind: echo}}
workload:
  driver: http
  target: web
  WORK
load: {replay: log, in_flight: 7}
run: {drain: 1s}
"""
CLOSED = FILE.replace(
    "load: {replay: log, in_flight: 7}\nrun: {drain: 1s}", "load: {testers: 1}\nrun: {duration: 1s}"
)


def written(directory: Path, *requests: tuple[float, str, str], name: str = "access.log") -> None:
    lines = [
        f"{at:.3f} 0 10.0.0.1 TCP_MISS/200 10 {method} http://h{path} - NONE/- -\n"
        for at, method, path in requests
    ]
    (directory / name).write_text("".join(lines))


def document(text: str, directory: Path) -> dict[str, Any]:
    plan = make_plan(load(text, directory=directory), 1)
    endpoints = {"web": "http://127.0.0.1:1"}
    found: dict[str, Any] = engine_document(plan.runs[0], endpoints, Path("/d"), "x")["workloads"][0]
    return found


def test_a_log_is_replayed_at_its_times(tmp_path: Path) -> None:
    written(
        tmp_path,
        (1e9, "GET", "/a"),
        (1e9 + 1, "GET", "/{n}"),
        (1e9 + 4, "GET", "/a"),
        (1e9 + 2, "POST", "/x"),
    )
    text = FILE.replace(
        "WORK", "http: {from_log: {file: access.log, as: replay, speed: 2.0}, headers: {A: b}}"
    )
    work = document(text, tmp_path)
    assert work["load"]["at_ns"] == [0, 500_000_000, 2_000_000_000]
    (operation,) = work["operations"]
    assert (operation["request"]["method"], operation["request"]["path"]) == ("GET", "{_path}")
    assert operation["request"]["headers"] == [["A", "b"]]
    assert work["values"] == {"_path": {"kind": "recorded", "items": ["/a", "/{n}"], "order": [0, 1, 0]}}
    plan = make_plan(load(text, directory=tmp_path), 1)
    assert plan.remarks == (
        "access.log: 3 requests in 4 lines; 1 with methods other than GET and HEAD are not used",
    )
    assert plan.estimate.transactions == 3


def test_a_replayed_log_keeps_its_methods(tmp_path: Path) -> None:
    written(tmp_path, (1e9, "GET", "/a"), (1e9 + 1, "HEAD", "/b"), (1e9 + 2, "GET", "/b"))
    work = document(FILE.replace("WORK", "http: {from_log: {file: access.log, as: replay}}"), tmp_path)
    (operation,) = work["operations"]
    assert operation["request"]["method"] == "{_method}"
    assert operation["request"]["resend_non_idempotent"] is True
    assert work["values"]["_method"] == {"kind": "recorded", "items": ["GET", "HEAD"], "order": [0, 1, 0]}
    assert work["values"]["_path"]["order"] == [0, 1, 1]


def test_a_set_draws_each_method_with_its_frequency(tmp_path: Path) -> None:
    written(tmp_path, *[(1e9 + at, "HEAD" if at == 3 else "GET", f"/{at % 2}") for at in range(6)])
    work = document(CLOSED.replace("WORK", "http: {from_log: {file: access.log}}"), tmp_path)
    assert [(each["name"], each["weight"], each["request"]["method"]) for each in work["operations"]] == [
        ("log GET", 5.0, "GET"),
        ("log HEAD", 1.0, "HEAD"),
    ]
    assert work["values"] == {
        "_get_path": {"kind": "weighted", "items": ["/0", "/1"], "weights": [3.0, 2.0]},
        "_head_path": {"kind": "weighted", "items": ["/1"], "weights": [1.0]},
    }


def test_a_duration_moves_the_start(tmp_path: Path) -> None:
    line = '10.0.0.1 - - [25/Nov/2026:16:49:0{} +0000] "GET / HTTP/1.1" 200 1 "-" "-" {}\n'
    (tmp_path / "access.log").write_text(line.format(5, "4.000") + line.format(6, "0.500"))
    section = "http: {from_log: {file: access.log, as: replay, format: nginx, duration: s}}"
    assert document(FILE.replace("WORK", section), tmp_path)["load"]["at_ns"] == [0, 4_500_000_000]


def test_a_warm_cache_is_filled_with_the_paths_of_a_log(tmp_path: Path) -> None:
    written(tmp_path, (1e9, "HEAD", "/a"), (1e9 + 1, "GET", "/b"))
    text = FILE.replace(
        "services: {web: {kind: echo}}", "services: {web: {kind: echo}, c: {kind: squid, origin: web}}"
    )
    text = text.replace("target: web", "target: c")
    text = text.replace("WORK", "http: {from_log: {file: access.log, as: replay}}")
    (filling,) = fillings(load(text, directory=tmp_path).cells[0].config)
    (work,) = filling.workloads
    assert work.operations[0].request["method"] == "GET"
    assert work.values["_path"].items == ("/a", "/b")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("http: {from_log: {file: none.log}}", "there is no file"),
        (
            "http: {from_log: {file: posts.log}}",
            "the log contains no GET or HEAD request: posts.log: 0 requests in 1",
        ),
        ("http: {from_log: {file: ok.log, speed: 2.0}}", "speed needs `as: replay`"),
        ("http: {from_log: {file: ok.log}, path: /a}", "give path or from_log, not both"),
        ("http: {from_log: {file: ok.log}, method: GET}", "give method or from_log, not both"),
        ("http: {from_log: {file: ok.log}}\n  mix: [{path: /}]", "give mix or from_log, not both"),
        (
            "http: {from_log: {file: ok.log, format: squid, duration: s}}",
            "duration (the unit of the last field",
        ),
        ("http: {from_log: {file: ok.log, format: iis}}", "format"),
        ("http: {from_log: {file: ok.log}}\n  values: {_get_path: {list: [a]}}", "use the name _get_path"),
    ],
)
def test_wrong_sections(tmp_path: Path, section: str, message: str) -> None:
    written(tmp_path, (1e9, "GET", "/"), name="ok.log")
    written(tmp_path, (1e9, "POST", "/"), name="posts.log")
    assert message in "\n".join(problems(CLOSED.replace("WORK", section), directory=tmp_path))


def test_lines_of_a_file_by_zipfs_law(tmp_path: Path) -> None:
    (tmp_path / "paths.txt").write_text("/a\n/b\n/c\n")
    section = 'http: {path: "{p}"}\n  values: {p: {file: paths.txt, order: zipf, s: 0.5}}'
    values = document(CLOSED.replace("WORK", section), tmp_path)["values"]["p"]
    assert (values["kind"], values["items"]) == ("weighted", ["/a", "/b", "/c"])
    assert values["weights"] == pytest.approx([1.0, 2**-0.5, 3**-0.5])
    listed = 'http: {path: "{p}"}\n  values: {p: {list: [/a, /b], order: zipf}}'
    assert document(CLOSED.replace("WORK", listed), tmp_path)["values"]["p"]["weights"] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{list: [a], order: random, s: 1.0}", "needs `order: zipf`"),
        ("{uniform: [1, 2], order: zipf}", "order needs list or file"),
        ("{list: [a], order: zipf, s: -1}", "s"),
    ],
)
def test_wrong_key_laws(tmp_path: Path, values: str, message: str) -> None:
    text = CLOSED.replace("WORK", f'http: {{path: "/{{p}}"}}\n  values: {{p: {values}}}')
    assert message in problems(text, directory=tmp_path)[0]
