"""The paths whose network is measured, and the rule that decides whether a path has become worse."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_hosts import BED

from plimsoll.cli.experiments.plan import lines
from plimsoll.errors import BadInput
from plimsoll.plan import load_experiment, make_plan
from plimsoll.plan.model.hosts import Requirement
from plimsoll.plan.sections.baseline import (
    PathEnd,
    PathFigures,
    Worse,
    path_ends,
    shortcoming,
    shown_bits,
    worse,
)

FILE = """
plimsoll: 1
services:
  web: {{kind: echo}}
  db: {{kind: echo, host: db1}}
targets:
  near: {{endpoints: [web]}}
  far: {{endpoints: [db]}}
  old: {{endpoints: ["http://old.example/x", "https://old.example:8443"]}}
  file: {{endpoints: [web], proxies: ["http://proxy.example:3128"]}}
workloads:
{workloads}
run: {{duration: 1s}}
hosts:
  kind: ssh
  sites: {{a: [a1, a2], b: [b1], c: [{{host: db1}}]}}
  controller: {{address: 192.0.2.1}}
  baseline: true
"""


def work(*rows: tuple[str, str]) -> str:
    return "\n".join(
        f"  w{number}: {{driver: http, target: {target}, site: {site}, load: {{testers: 4}}}}"
        for number, (target, site) in enumerate(rows)
    )


def load(tmp_path: Path, text: str) -> list[PathEnd]:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    config = load_experiment(file).cells[0].config
    return [*path_ends([config], next(host for host in config.hosts.hosts if host.name == "a1"))]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("near", ["lab"]),
        ("far", ["db1"]),
        ("old", ["old.example:80", "old.example:8443", "lab"]),
        ("file", ["proxy.example:3128", "lab"]),
    ],
)
def test_paths_lead_to_where_testers_connect(tmp_path: Path, target: str, names: list[str]) -> None:
    ends = load(tmp_path, FILE.format(workloads=work((target, "a"))))
    assert [end.name for end in ends] == names
    transfers = [end for end in ends if end.has_transfer]
    assert [end.is_target for end in transfers] == [target in ("near", "far")], "existing systems get no data"


def test_each_site_has_the_paths_of_its_workloads(tmp_path: Path) -> None:
    text = FILE.format(workloads=work(("near", "a"), ("far", "[a, c]"), ("old", "b")))
    (tmp_path / "x.yaml").write_text(text)
    config = load_experiment(tmp_path / "x.yaml").cells[0].config
    by_host = {host.name: [end.name for end in path_ends([config], host)] for host in config.hosts.hosts}
    assert by_host["a1"] == ["lab", "db1"]
    assert by_host["b1"] == ["old.example:80", "old.example:8443", "lab"]
    assert by_host["db1"] == ["lab"], "there is no network to its own service"
    assert len(path_ends([config], None)) == 4, "a host that is not known before has all paths"


def test_plan_prints_the_duration(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(FILE.format(workloads=work(("near", "a"))))
    text = "\n".join(lines(make_plan(load_experiment(tmp_path / "x.yaml"), 1), 10))
    assert "baseline: round trip and TCP throughput of 4 hosts" in text
    assert "before the first run and after the last: 8 s to 16 s each time" in text
    assert "at most 256 MB per host, other end and direction" in text


def test_the_address_of_the_lab_is_required_for_transfers_with_it(tmp_path: Path) -> None:
    text = FILE.replace("  controller: {{address: 192.0.2.1}}\n", "")
    text = text.replace("web: {{kind: echo}}", "web: {{kind: echo, host: db1}}")
    (tmp_path / "x.yaml").write_text(text.format(workloads=work(("far", "a"))))
    with pytest.raises(BadInput, match=r"hosts\.baseline: data is transferred .* controller: \{address"):
        load_experiment(tmp_path / "x.yaml")  # db1 has no path to itself, so the lab is its other end


def test_a_testbed_has_an_address(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(BED)
    hosts = "hosts: {kind: testbed, testbed: bed.yaml, baseline: true, require: {network: '>=50Mbit/s'}}\n"
    text = (
        FILE.format(workloads=work(("near", "tokyo")))
        .partition("hosts:\n")[0]
        .replace("  db: {kind: echo, host: db1}\n", "")
        .replace("  far: {endpoints: [db]}\n", "")
    )
    (tmp_path / "x.yaml").write_text(text + hosts)
    config = load_experiment(tmp_path / "x.yaml").cells[0].config
    assert config.hosts.baseline
    assert [(one.what, one.value) for one in config.hosts.require] == [("network", 50e6 / 8)]


BEFORE = PathFigures("lab", True, 20e6, 21e6, 2.4e6, 2.4e6)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (BEFORE, ()),
        (PathFigures("lab", True, 23.9e6, 30e6, 2e6, 2e6), ()),
        (PathFigures("lab", True, 24.1e6, 25e6, 2.4e6, 2.4e6), (Worse.ROUND_TRIP,)),
        (PathFigures("lab", True, 20e6, 21e6, 1.9e6, 2.4e6), (Worse.SEND,)),
        (PathFigures("lab", True, 20e6, 21e6, 9e6, 1.9e6), (Worse.RECEIVE,)),
        (PathFigures("lab", error="no answer"), ()),
    ],
)
def test_a_path_is_worse_beyond_the_bounds(after: PathFigures, found: tuple[Worse, ...]) -> None:
    assert worse(BEFORE, after) == found


def test_a_short_round_trip_may_rise_by_a_millisecond() -> None:
    short = PathFigures("lab", True, 0.2e6)
    assert worse(short, PathFigures("lab", True, 1.1e6)) == ()
    assert worse(short, PathFigures("lab", True, 1.3e6)) == (Worse.ROUND_TRIP,)


def test_the_best_figures_of_several_measurements_count() -> None:
    best = PathFigures("lab", True, 20e6, None, 1e6, 3e6, "lost").best_with(
        PathFigures("lab", True, 19e6, 22e6, 2e6, 2e6)
    )
    assert best == PathFigures("lab", True, 19e6, 22e6, 2e6, 3e6, "", 2)


def test_the_slowest_path_must_satisfy_the_requirement() -> None:
    required = [Requirement("cores", ">=", 2, ">=2"), Requirement("network", ">=", 50e6 / 8, ">=50Mbit/s")]
    fast = PathFigures("lab", True, 1e6, 1e6, 1e8, 1e8)
    assert shortcoming(required, [fast]) == "" and shortcoming(required[:1], []) == ""
    slow = PathFigures("db1", True, 1e6, 1e6, 1e8, 2.4e6)
    text = "its network throughput to db1 is 19.2 Mbit/s; required is >=50Mbit/s"
    assert shortcoming(required, [fast, slow]) == text
    broken = PathFigures("lab", error="192.0.2.1:4000: timed out")
    for paths, why in (([fast, broken], " (192.0.2.1:4000: timed out)"), ([], "")):
        expected = f"its network throughput is not known{why}; required is >=50Mbit/s"
        assert shortcoming(required, paths) == expected


def test_throughput_is_shown_in_bits() -> None:
    assert [shown_bits(rate) for rate in (1.25e9, 2.39e6, 2e3, 10)] == [
        "10 Gbit/s",
        "19.1 Mbit/s",
        "16 kbit/s",
        "80 bit/s",
    ]
