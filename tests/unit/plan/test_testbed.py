"""The testbed file: how it is resolved, and messages about invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan.hosts.testbed import (
    TestbedSpec,
    document,
    load_testbed,
    parse_testbed,
)
from plimsoll.plan.links import parse_bit_rate, show_bit_rate
from plimsoll.plan.model.links import default_queue
from plimsoll.plan.source.units import UnitError

ROOT = Path(__file__).parents[3]
GOOD = """\
testbed: 1
name: wan
lab: cern
sites:
  cern: {hosts: 2}
  lyon: {hosts: 1}
  tokyo: {hosts: 1}
links:
  - {between: [cern, lyon], rtt: 60ms, jitter: 1ms, rate: 100Mbit/s}
  - {between: [tokyo, cern], rtt: 315ms, asymmetry: -35ms, loss: 0.1%, queue: 4MB}
lan: {rtt: 0.3ms}
"""
MS = 1_000_000


def spec(text: str = GOOD) -> TestbedSpec:
    return parse_testbed(text, "x.yaml")


def problems(old: str, new: str) -> list[str]:
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        spec(GOOD.replace(old, new))
    return str(caught.value).split("\n")


def test_a_testbed_file_is_resolved() -> None:
    testbed = spec()
    assert [host.name for host in testbed.hosts] == ["lab", "cern-1", "cern-2", "lyon-1", "tokyo-1"]
    assert testbed.lab.site == "cern"
    addresses = [host.address for host in testbed.hosts]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("10.") for address in addresses)
    shapes = {(link.source, link.to): link.shape for link in testbed.directed_links}
    assert shapes["cern", "lyon"] == shapes["lyon", "cern"]
    lyon = shapes["cern", "lyon"]
    assert (lyon.delay_ns, lyon.jitter_ns, lyon.rate_bit_s) == (30 * MS, MS, 100_000_000)
    assert lyon.queue_bytes == 750_000  # 100 Mbit/s for 60 ms
    # Forward is from the first of `between`: 35 ms shorter than the way back.
    assert shapes["tokyo", "cern"].delay_ns == 140 * MS
    assert shapes["cern", "tokyo"].delay_ns == 175 * MS
    assert shapes["cern", "tokyo"].loss == 0.001
    assert shapes["cern", "tokyo"].queue_bytes == 4_000_000
    assert shapes["lyon", "lyon"].delay_ns == 150_000
    assert set(testbed.routes) == {("lyon", "cern", "tokyo"), ("tokyo", "cern", "lyon")}


def test_rates_can_differ_by_direction_and_links_can_bypass_the_lab() -> None:
    text = GOOD.replace("rate: 100Mbit/s", "rate: {forward: 2Mbit/s, backward: 0.5Mbit/s}")
    text = text.replace("lan:", "  - {between: [lyon, tokyo], rtt: 250ms}\nlan:")
    testbed = spec(text)
    rates = {(link.source, link.to): link.shape.rate_bit_s for link in testbed.directed_links}
    assert (rates["cern", "lyon"], rates["lyon", "cern"]) == (2_000_000, 500_000)
    assert testbed.routes == ()


def test_the_fingerprint_depends_on_the_meaning_only() -> None:
    assert spec().fingerprint() == spec(GOOD.replace("60ms", "0.06s") + "# a remark\n").fingerprint()
    for old, new in (("60ms", "61ms"), ("hosts: 2", "hosts: 3"), ("lab: cern", "lab: cern\nseed: 2")):
        assert spec().fingerprint() != spec(GOOD.replace(old, new)).fingerprint()


def test_the_engine_document_numbers_sites() -> None:
    engine_document = document(spec())
    assert engine_document["sites"] == ["cern", "lyon", "tokyo"]
    assert engine_document["hosts"][3]["site"] == 1
    assert {(link["from"], link["to"]) for link in engine_document["links"]} >= {
        (0, 1),
        (1, 0),
        (0, 2),
        (2, 0),
        (1, 1),
    }
    assert {"sites": [1, 0, 2]} in engine_document["routes"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rtt: 60ms", "rtt: 60", "x.yaml:9: links.0.rtt: 60 has no unit"),
        ("rtt: 60ms", "rt: 60ms", 'x.yaml:9: links.0.rt: unknown key; did you mean "rtt"?'),
        ("100Mbit/s", "100MB/s", 'x.yaml:9: links.0.rate: expected a rate of bits, got "100MB/s"'),
        ("100Mbit/s", "1bit/s", "the rate of a link must be from 1 kbit/s to 1 Tbit/s"),
        ("[cern, lyon]", "[cern, lion]", 'there is no site "lion"'),
        ("[cern, lyon]", "[cern, lion]", 'did you mean "lyon"?'),
        ("[cern, lyon]", "[cern]", "x.yaml:9: links.0.between: expected two different sites"),
        ("[cern, lyon]", "[cern, cern]", "expected two different sites"),
        ("[cern, lyon]", "[cern, tokyo]", "this pair of sites already has a link: links.0"),
        (
            "[cern, lyon]",
            "[tokyo, lyon]",
            "x.yaml:6: sites.lyon: the site has no link to the site of the lab",
        ),
        ("lab: cern", "lab: geneva", 'x.yaml:3: lab: there is no site "geneva"'),
        (
            "asymmetry: -35ms",
            "asymmetry: -316ms",
            "links.1.asymmetry: the delay of one direction would be negative",
        ),
        ("jitter: 1ms", "jitter: 61ms", "links.0.jitter: the delay of one direction would be negative"),
        ("queue: 4MB", "queue: 100B", "links.1.queue: the size of a queue must be from 2kB"),
        ("loss: 0.1%", "loss: 0.1", "links.1.loss: 0.1 has no unit"),
        ("hosts: 2", "hosts: 251", "must be at most 250"),
        ("hosts: 2", "hosts: 250}\n  more: {hosts: 249", "at most 500 hosts"),
        ("name: wan", "name: ../wan", "name: "),
        ("lyon: {", "Lyon_1: {", "sites"),
        ("lan: {rtt: 0.3ms}", "lan: {rate: 1Gbit/s}", "x.yaml:11: lan.rate: unknown key"),
        ("testbed: 1", "testbed: 2", "install a newer Plimsoll"),
        ("testbed: 1\n", "", "testbed: required key missing"),
        ("sites:", "sites: [\nx:", "invalid YAML"),
    ],
)
def test_invalid_testbed_files_are_rejected(old: str, new: str, message: str) -> None:
    lines = problems(old, new)
    assert any(message in line for line in lines), lines
    assert all(line.startswith("x.yaml") for line in lines), lines


def test_several_problems_are_reported_together() -> None:
    assert len(problems("lab: cern", "lab: x\nlan: 3")) == 1
    with pytest.raises(BadInput) as caught:
        spec(GOOD.replace("lab: cern", "lab: x").replace("jitter: 1ms", "jitter: 1s"))
    assert len(caught.value.problems) == 2


def test_files_that_cannot_be_read_are_rejected(tmp_path: Path) -> None:
    binary = tmp_path / "x.yaml"
    binary.write_bytes(b"\xff\x00")
    for path in (binary, tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(BadInput):
            load_testbed(path)


def test_the_example_is_valid() -> None:
    for path in (ROOT / "examples" / "testbeds").glob("*.yaml"):
        assert load_testbed(path).name == path.stem


def test_bit_rates_are_parsed_and_shown() -> None:
    for text in ("512kbit/s", "100Mbit/s", "1Gbit/s", "1001bit/s"):
        assert show_bit_rate(parse_bit_rate(text)) == text
    assert parse_bit_rate(" 2.5 Mbit/s ") == 2_500_000
    wrongs: list[object] = [
        "100",
        100,
        "100Mbps",
        "-1Mbit/s",
        "1e9bit/s",
        "2Tbit/s",
        None,
        [],
        "1Mbit/s" * 1000,
    ]
    for wrong in wrongs:
        with pytest.raises(UnitError):
            parse_bit_rate(wrong)


def test_the_default_queue_is_rate_times_round_trip() -> None:
    assert default_queue(0, None) > 10**8
    assert default_queue(300_000, 10_000_000) == 64 * 1514
    assert default_queue(315 * MS, 500_000_000) == 19_687_500
