"""The section `ldap` of a workload, and the service kind `slapd`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.plan.helpers import load

from plimsoll.errors import BadInput
from plimsoll.plan.model.cell import Config
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.tiers import tiers_of

REST = "run: {duration: 1s}\nload: {testers: 1}\n"


def config(
    section: str, service: str = "kind: slapd", extra: str = "", environ: Mapping[str, str] | None = None
) -> Config:
    text = f"""
plimsoll: 1
services: {{index: {{{service}}}}}
workload: {{driver: ldap, target: index, ldap: {{{section}}}{extra}}}
{REST}"""
    (cell,) = load(text, environ=environ).cells
    return cell.config


def test_every_key_has_a_value_for_the_engine() -> None:
    (work,) = config("base: o=grid").workloads
    assert work.settings == {
        "connection": "kept",
        "bind": {"kind": "anonymous"},
        "start_tls": False,
        "tls": None,
    }
    (operation,) = work.operations
    assert (operation.name, operation.request) == (
        "search",
        {
            "base": "o=grid",
            "scope": "sub",
            "filter": "(objectClass=*)",
            "attributes": [],
            "size_limit": 0,
            "time_limit_s": 0,
            "page_size": None,
            "expect_entries": None,
        },
    )


def test_entries_of_a_mix_replace_the_keys_of_a_search() -> None:
    (work,) = config(
        'bind: {dn: "cn=a", password: {secret: "${env:PW}"}}, size_limit: 5, time_limit: 2s',
        extra=", mix: [{name: one, scope: base}, {name: all, size_limit: 0, page_size: 100}]",
        environ={"PW": "secret word"},
    ).workloads
    assert work.settings["bind"] == {"kind": "simple", "dn": "cn=a", "password": Secret("secret word")}
    one, every = (operation.request for operation in work.operations)
    assert (one["scope"], one["size_limit"], one["page_size"], one["time_limit_s"]) == ("base", 5, None, 2)
    assert (every["scope"], every["size_limit"], every["page_size"]) == ("sub", 0, 100)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("filter: cn=x", 'expected a filter in parentheses, such as (objectClass=*), got "cn=x"'),
        ("time_limit: 1500ms", "LDAP limits the time in whole seconds"),
        ("bind: external", "external needs a client certificate"),
        ("bind: {dn: cn=a, password: secret}", "the file contains the password"),
        ("scope: tree", "scope"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(section: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        config(section)
    assert message in str(refused.value)


def test_a_server_with_ldaps_has_a_certificate() -> None:
    (plain,) = config("", "kind: slapd").services
    (secure,) = config("", "kind: slapd, protocol: ldaps").services
    assert (plain.scheme, plain.settings["tls"]) == ("ldap", None)
    made = {"cert": None, "key": None, "ca_file": None, "clients": "none"}
    assert (secure.scheme, secure.settings["tls"]) == ("ldaps", made)
    (both,) = config("", "kind: slapd, tls: {}").services
    assert (both.scheme, both.settings["tls"]) == ("ldap", made)
    for tls, message in (
        ("cert: a.pem", "give cert and key"),
        ("ca_file: a.pem, clients: none", "ca_file is used only with `clients: optional` or `required`"),
        (
            "cert: a.pem, key: a.key, clients: required",
            "client certificates need their authority: give ca_file",
        ),
    ):
        with pytest.raises(BadInput) as refused:
            config("", f"kind: slapd, tls: {{{tls}}}")
        assert message in str(refused.value)
    with pytest.raises(BadInput, match="entries"):
        config("", "kind: slapd, entries: 10")


def test_the_service_makes_the_certificates_of_its_testers() -> None:
    for clients in ("optional", "required"):
        service = f"kind: slapd, protocol: ldaps, tls: {{clients: {clients}}}"
        found = config("bind: external, tls: {proxy: tester}", service)
        assert isinstance(tls := found.services[0].settings["tls"], dict)
        assert tls["clients"] == clients
        (work,) = found.workloads
        assert work.settings["bind"] == {"kind": "external"}
    for section, service, message in (
        ("bind: external", "kind: slapd, protocol: ldaps", "or the service index `tls: {clients: optional}`"),
        ("tls: {proxy: run}", "kind: slapd, tls: {}", "a proxy needs the certificate that issues it"),
    ):
        with pytest.raises(BadInput) as refused:
            config(section, service)
        assert message in str(refused.value)


def test_searches_are_compared_with_those_that_the_server_counts() -> None:
    (tier,) = tiers_of(config(""))
    assert (tier.service, tier.counter, [part.workload for part in tier.testers]) == (
        "index",
        "search",
        ["main"],
    )
    assert tier.sent_bytes is not None
    assert not list(tiers_of(config("page_size: 10")))
