"""The picture of the set-up: one box for each component, lines between them, marks of what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from tests.golden.fixture import designed

from plimsoll.analyse.results.run import Utilization
from plimsoll.plan.topology import Component, Connection, Topology
from plimsoll.report.figures import write_figures
from plimsoll.report.labels import Labels
from plimsoll.report.setup.marks import _sharing, marks_of, picture_of
from plimsoll.report.setup.picture import HEIGHT, WIDTH, Mark, is_worth_drawing, setup_picture

CHAIN = Topology(
    (
        Component("testers", "testers", "", "", 0),
        Component("gateway", "service", "frontier", "host <far-1>", 1),
        *(Component(f"db.{number}", "service", "echo", "", 2) for number in range(6)),
    ),
    (
        Connection("testers", "gateway", "far: round trip 20ms, jitter 1ms, rate 10Mbit/s"),
        *(Connection("gateway", f"db.{number}") for number in range(6)),
    ),
)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(marks: dict[str, Mark], *, as_file: bool = False) -> ET.Element:
    return ET.fromstring(setup_picture(CHAIN, marks, as_file=as_file))


def test_boxes_do_not_overlap_and_lie_in_the_picture() -> None:
    svg = drawn({})
    rects = [(float(each.get("x", "")), float(each.get("y", ""))) for each in svg.iter(f"{SVG}rect")]
    assert len(rects) == len(set(rects)) == len(CHAIN.components)
    for at, (x, y) in enumerate(rects):
        assert (
            x >= 0 and x + WIDTH <= float(svg.get("width", "")) and y + HEIGHT <= float(svg.get("height", ""))
        )
        for other_x, other_y in rects[at + 1 :]:
            assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT
    lines = [each for each in svg.iter(f"{SVG}path") if each.get("marker-end")]
    assert len(lines) == len(CHAIN.connections)


def test_texts_are_escaped_and_shortened() -> None:
    text = setup_picture(CHAIN, {"gateway": Mark("busiest thread 98 %")})
    assert "host &lt;far-1&gt;" in text and "<far-1>" not in text
    texts = [each.text or "" for each in drawn({}).iter(f"{SVG}text")]
    assert "link far" in texts and "20ms, 10Mbit/s" in texts
    assert max(map(len, texts)) <= 32


def test_the_bottleneck_is_marked() -> None:
    svg = drawn({"gateway": Mark("bottleneck: CPU 98 %", is_bottleneck=True), "testers": Mark("CPU 10 %")})
    (limit,) = [each for each in svg.iter(f"{SVG}g") if each.get("class") == "limit"]
    assert [each.text for each in limit.iter(f"{SVG}text")][-1] == "bottleneck: CPU 98 %"
    assert "gateway is the bottleneck" in svg.get("aria-label", "")


def test_marks_come_from_the_cell_of_the_key_figures() -> None:
    analysis = designed()
    names = {part.component: part.role for run in analysis.runs for part in run.utilization}
    service = next(name for name, role in names.items() if role == "service")
    topology = Topology(
        (
            Component("testers", "testers", "", "", 0),
            Component(service, "service", "x", "", 1),
            CHAIN.components[2],
        ),
        (),
    )
    marks, caption = marks_of(Labels(analysis), topology)
    assert marks[service].text.rstrip().endswith("%")
    assert "ottleneck" in caption
    picture = picture_of(Labels(analysis), topology)
    assert picture is not None and picture.svg.startswith("<svg")


def test_of_services_that_share_a_full_core_those_that_use_it_are_marked() -> None:
    analysis = designed()
    run = replace(analysis.runs[0], utilization=(
        Utilization("services' core", "cores", "", 0.99, None, None,
                    {"gateway": 0.8, "squid": 0.18, "db": 0.01}),))  # fmt: skip
    assert _sharing([run], "services' core") == {"gateway"}
    assert _sharing([run], "gateway") == set()


def test_a_simple_set_up_has_no_picture(tmp_path: Path) -> None:
    simple = Topology((*CHAIN.components[:1], Component("web", "service", "echo", "", 1)), ())
    assert not is_worth_drawing(simple)
    assert picture_of(Labels(designed()), simple) is None
    assert picture_of(Labels(designed()), None) is None
    assert not [path for path in write_figures(designed(), tmp_path, "svg", simple) if path.stem == "set-up"]


def test_a_file_has_colours_of_its_own(tmp_path: Path) -> None:
    text = setup_picture(CHAIN, {}, as_file=True)
    assert "var(" not in text and ".set-up rect" in text
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        (path,) = [
            path
            for path in write_figures(designed(finished=2), tmp_path, kind, CHAIN)
            if path.stem == "set-up"
        ]
        assert path.read_bytes().startswith(start)
