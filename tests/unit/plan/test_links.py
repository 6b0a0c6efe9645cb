"""Properties of the links of a testbed in an experiment file: `hosts.links`, and paths to them as factors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.plan.hosts.testbed import load_testbed
from plimsoll.plan.links import describe
from plimsoll.plan.model.links import Link

MS = 1_000_000
WAN = """\
testbed: 1
name: wan
lab: cern
sites: {cern: {hosts: 0}, lyon: {hosts: 1}, tokyo: {hosts: 1}}
links:
  - {between: [cern, lyon], rtt: 60ms, jitter: 1ms, rate: 100Mbit/s, queue: 4MB}
  - {name: far, between: [cern, tokyo], rtt: 300ms, loss: 1%}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "wan.yaml").write_text(WAN)
    (tmp_path / "other.yaml").write_text(WAN.replace("name: wan", "name: other"))
    return tmp_path


def text(more: str) -> str:
    return BASE + f"hosts: {{kind: testbed, testbed: wan.yaml{more}}}\n"


def links(more: str, directory: Path) -> list[Link]:
    """The links that the file changes."""
    [cell] = load(text(more), directory=directory).cells
    before = load_testbed(directory / "wan.yaml").links
    assert [link.name for link in cell.config.hosts.links] == [link.name for link in before]
    return [link for link in cell.config.hosts.links if link not in before]


def test_a_link_keeps_the_properties_that_the_file_does_not_change(directory: Path) -> None:
    assert links("", directory) == []
    [far] = links(", links: {far: {rate: 10Mbit/s}}", directory)
    assert (far.name, far.first, far.second) == ("far", "cern", "tokyo")
    assert (far.rtt_ns, far.loss) == (300 * MS, 0.01)
    assert (far.forward_bit_s, far.backward_bit_s, far.queue_bytes) == (10_000_000, 10_000_000, None)


def test_a_link_without_a_name_is_called_after_its_sites(directory: Path) -> None:
    [near, far] = links(", links: {far: {rtt: 1ms}, cern-lyon: {loss: 2%}}", directory)
    assert (near.name, far.name) == ("cern-lyon", "far"), "in the order of the testbed file"
    assert (near.loss, near.queue_bytes, near.jitter_ns) == (0.02, 4_000_000, MS)


def test_a_queue_of_the_testbed_file_goes_with_its_rate_and_round_trip(directory: Path) -> None:
    for change in ("rate: 1Gbit/s", "rtt: 2ms"):
        [near] = links(f", links: {{cern-lyon: {{{change}, jitter: 0s}}}}", directory)
        assert near.queue_bytes is None, "it is derived from the new values"
    [near] = links(", links: {cern-lyon: {rate: 1Gbit/s, queue: 3MB}}", directory)
    assert near.queue_bytes == 3_000_000


def test_a_rate_may_be_removed_or_differ_by_direction(directory: Path) -> None:
    [near] = links(", links: {cern-lyon: {rate: none}}", directory)
    assert (near.forward_bit_s, near.backward_bit_s) == (None, None)
    [near] = links(", links: {cern-lyon: {rate: {forward: 1Mbit/s, backward: none}}}", directory)
    assert (near.forward_bit_s, near.backward_bit_s) == (1_000_000, None)
    assert (
        describe(near)
        == "link cern-lyon: round trip 60ms, jitter 1ms, rate 1Mbit/s from cern to lyon, none back"
    )


def test_properties_of_links_are_factors(directory: Path) -> None:
    factors = (
        "factors:\n  hosts.links.far.rate: [none, 10Mbit/s]\n  hosts.links.cern-lyon.rtt: [60ms, 80ms]\n"
    )
    cells = load(text("") + factors, directory=directory).cells
    found = [
        tuple((link.name, link.rtt_ns // MS, link.forward_bit_s) for link in cell.config.hosts.links)
        for cell in cells
    ]
    assert found == [
        (("cern-lyon", rtt, 100_000_000), ("far", 300, rate))
        for rate in (None, 10_000_000)
        for rtt in (60, 80)
    ]
    stored = [cell.stored["hosts"]["links"] for cell in cells]
    assert stored[0] == {"far": {"rate": "none"}, "cern-lyon": {"rtt": "60ms"}}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (", links: {fa: {rtt: 1ms}}", 'the testbed wan has no link "fa" (links: cern-lyon, far)'),
        (", links: {far: {rate: 10MB/s}}", 'hosts.links.far.rate: expected a rate of bits, got "10MB/s"'),
        (", links: {far: {rtt: 70s}}", "hosts.links.far.rtt: the round-trip time must be at most 60s"),
        (", links: {cern-lyon: {rtt: 0.5ms}}", "hosts.links.cern-lyon: the delay of one direction"),
        (", links: {far: {jitter: 301ms}}", "hosts.links.far.jitter: the delay of one direction"),
        (", links: {far: {queue: 1kB}}", "hosts.links.far.queue: the size of a queue must be from 2kB"),
        (", links: {far: {delay: 1ms}}", "hosts.links.far.delay: unknown key"),
    ],
)
def test_an_invalid_link_is_refused(directory: Path, more: str, problem: str) -> None:
    found = problems(text(more), directory=directory)
    assert any(problem in line for line in found), found


def test_other_hosts_have_no_links(tmp_path: Path) -> None:
    found = problems(BASE + "hosts: {kind: ssh, hosts: [a], links: {far: {rtt: 1ms}}}\n", directory=tmp_path)
    assert any("hosts.links: hosts of kind ssh have no emulated links" in line for line in found), found


def test_two_testbeds_are_refused_before_a_run(directory: Path) -> None:
    found = problems(text("") + "factors: {hosts.testbed: [wan.yaml, other.yaml]}\n", directory=directory)
    assert any("the hosts belong to 2 testbeds" in line and "hosts.links.NAME.rate" in line for line in found)


def test_two_links_with_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wan.yaml").write_text(
        WAN.replace("{between: [cern, lyon]", "{name: far, between: [cern, lyon]")
    )
    found = problems(text(""), directory=tmp_path)
    assert any('2 links have the name "far"' in line for line in found), found


def test_links_change_during_a_run(directory: Path) -> None:
    """The properties of the action are added to those of the run, and restored to them."""
    more = ", links: {far: {rate: 10Mbit/s}}"
    first = "{at: 0.2s, link: {name: far, rtt: 20ms, loss: 0%}, for: 0.5s}"
    actions = f"actions:\n  - {first}\n  - {{at: 0.8s, cut: {{link: far}}}}\n"
    [cell] = load(text(more) + actions, directory=directory).cells
    change, cut = cell.config.actions
    assert (change.label, cut.label) == ("link far: rtt 20ms, loss 0%", "cut of link far")
    assert change.link is not None and change.link_before is not None and cut.link is not None
    assert (change.link.rtt_ns, change.link.loss, change.link.forward_bit_s) == (20 * MS, 0.0, 10_000_000)
    assert change.link_before == cut.link_before == cell.config.hosts.links[1]
    assert cut.link.down and cut.for_ns == 0


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("{at: 0.1s, cut: {link: fra}}", "actions.0.cut.link: the testbed has no link"),
        ("{at: 0.1s, link: {name: far}}", "actions.0.link: give at least one property"),
        ("{at: 0.1s, link: {name: far, jitter: 1s}}", "actions.0.link.jitter: the delay of one direction"),
        ("{at: 0.1s, link: {name: far, rate: fast}}", "actions.0.link.rate: expected a rate of bits"),
        ("{at: 0.1s, cut: {link: far}, for: 0s}", "actions.0.for"),
        (
            "{at: 0.1s, cut: {link: far}, for: 0.5s}\n  - {at: 0.3s, link: {name: far, rtt: 1ms}}",
            "actions.1.at: link far is changed from 100ms to 600ms",
        ),
    ],
)
def test_an_invalid_action_on_a_link_is_refused(directory: Path, action: str, problem: str) -> None:
    found = problems(text("") + f"actions:\n  - {action}\n", directory=directory)
    assert any(problem in line for line in found), found


def test_an_action_on_a_link_needs_a_testbed() -> None:
    found = problems(BASE + "actions:\n  - {at: 0.1s, cut: {link: far}}\n")
    assert any("there are no emulated links" in line for line in found), found
