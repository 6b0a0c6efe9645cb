"""`source_addresses` of the drivers `tcp` and `http`, and the warning about local ports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import BASE, edited, load, problems

from plimsoll.plan import make_plan
from plimsoll.plan.engine import engine_document

EXPECTED = "expected an IP address, or a range such as 127.0.0.2..127.0.0.9, got "


def file_with(sources: str, target: str = "web") -> str:
    return edited("target: web", f"target: '{target}'\n  http: {{source_addresses: {sources}}}")


def settings_of(text: str) -> dict[str, object]:
    plan = make_plan(load(text), seed=1)
    document = engine_document(plan.runs[0], {"web": ["http://127.0.0.1:1"]}, Path("/nowhere/run"), "small")
    settings: dict[str, object] = document["workloads"][0]["settings"]
    return settings


@pytest.mark.parametrize(
    ("sources", "addresses"),
    [
        ("127.0.0.2", ["127.0.0.2"]),
        ("127.0.0.254..127.0.1.1", ["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"]),
        ("['2001:db8::a .. 2001:DB8::b', 10.0.0.7]", ["2001:db8::a", "2001:db8::b", "10.0.0.7"]),
    ],
)
def test_the_engine_reads_each_address(sources: str, addresses: list[str]) -> None:
    assert settings_of(file_with(sources))["source_addresses"] == addresses


def test_without_the_key_the_document_is_that_of_earlier_versions() -> None:
    assert "source_addresses" not in settings_of(BASE)


@pytest.mark.parametrize(
    ("sources", "place", "message"),
    [
        ("[127.0.0.2, 127.0.0.300]", ".1", f'{EXPECTED}"127.0.0.300"'),
        ("10.0.0.0/24", "", f'{EXPECTED}"10.0.0.0/24"'),
        ("eth0", "", f'{EXPECTED}"eth0"'),
        ("5", "", f'{EXPECTED}"5"'),
        ("127.0.0.1..", "", f'{EXPECTED}"127.0.0.1.."'),
        (
            "127.0.0.9..127.0.0.2",
            "",
            '"127.0.0.9..127.0.0.2": the range ends before it begins: exchange its addresses',
        ),
        ("127.0.0.1..::1", "", 'expected a range within IPv4 or within IPv6, got "127.0.0.1..::1"'),
        ("10.0.0.0..10.0.4.0", "", '"10.0.0.0..10.0.4.0": a range has at most 1,024 addresses'),
        ("[10.0.0.0..10.0.3.255, 10.1.0.1]", "", "expected at most 1,024 addresses, got 1,025"),
        (
            "[127.0.0.2, 127.0.0.1..127.0.0.3]",
            ".1",
            "127.0.0.2 is in the list twice: remove one of them",
        ),
        (
            "0.0.0.0",
            "",
            "0.0.0.0 is not the address of a host: omit source_addresses to let the kernel select one",
        ),
        (
            "'::ffff:192.0.2.1'",
            "",
            "::ffff:c000:201 is an IPv4 address in the form of IPv6: write 192.0.2.1",
        ),
        (
            "'fe80::1'",
            "",
            "fe80::1 needs an interface (a link-local address), which is not supported: use a global address",
        ),
        ("[]", "", "expected at least one item, got none"),
    ],
)
def test_malformed_addresses_are_refused_with_their_line(sources: str, place: str, message: str) -> None:
    assert problems(file_with(sources)) == [f"x.yaml:8: workload.http.source_addresses{place}: {message}"]


@pytest.mark.parametrize(
    ("target", "sources", "message"),
    [
        (
            "http://127.0.0.1:8/",
            "'::1'",
            "127.0.0.1 is an IPv4 address, and the list contains none: add IPv4 addresses",
        ),
        (
            "http://[::1]:8/",
            "[127.0.0.2, '::2']",
            "127.0.0.2 is an IPv4 address, and no connection goes to an IPv4 address: remove it from the list",
        ),
    ],
)
def test_families_that_the_target_does_not_have_are_refused(target: str, sources: str, message: str) -> None:
    assert problems(file_with(sources, target)) == [f"x.yaml:8: workload.http.source_addresses: {message}"]


def test_the_families_of_names_and_services_are_not_known() -> None:
    for target in ("http://localhost:8/", "web"):
        load(file_with("[127.0.0.2, '::1']", target))


def test_the_family_is_that_of_the_proxy() -> None:
    text = file_with("['::1']", "http://192.0.2.1/").replace(
        "source_addresses", "proxy: 'http://[::1]:3128', source_addresses"
    )
    load(text)


def test_the_key_applies_to_all_requests() -> None:
    text = edited(
        "target: web", "target: web\n  mix:\n    - {name: a, source_addresses: 127.0.0.2}\n    - {name: b}"
    )
    (problem,) = problems(text)
    assert "source_addresses applies to all requests of a workload: move it to `http`" in problem


def many_warning(testers: int, target: str, key: str = "") -> list[str]:
    text = edited("target: web", f"target: '{target}'\n  http: {{path: /{key}}}")
    plan = make_plan(load(text.replace("testers: 1", f"testers: {testers}")), seed=1)
    return [text for text in plan.warnings if "local ports" in text]


def test_the_warning_about_ports_counts_the_addresses() -> None:
    (warning,) = many_warning(30_000, "http://192.0.2.1/")
    assert warning.startswith("main: up to 30,000 connections from one host to one address. ")
    assert "list several local addresses in http.source_addresses, use more hosts" in warning
    (warning,) = many_warning(30_000, "http://192.0.2.1/", ", source_addresses: [10.0.0.1, 10.0.0.2]")
    assert warning.startswith("main: up to 15,000 connections from one of the source_addresses of a host to ")
    assert "add addresses to http.source_addresses" in warning
    assert not many_warning(30_000, "http://192.0.2.1/", ", source_addresses: 10.0.0.1..10.0.0.3")
    # Of a service with an unknown address, one family counts.
    assert many_warning(30_000, "web", ", source_addresses: [10.0.0.1, 10.0.0.2, '::1']")
