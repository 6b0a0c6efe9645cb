"""The configuration and the entries of `slapd`, and the client that reads its counters."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll.deploy.counters.slapd import reading
from plimsoll.deploy.ldap import Entry, LdapClient, element, elements, split
from plimsoll.deploy.servers.glue_site import ADMITTED, ldif
from plimsoll.deploy.servers.slapd import ServerCertificate, configuration

SETTINGS = {"threads": 4, "entries": 100, "settings": ["idletimeout 60"]}
BOUND = bytes.fromhex("300c02010161070a010004000400")


def test_the_same_seed_makes_the_same_site() -> None:
    site = ldif(200, 7)
    assert site == ldif(200, 7) != ldif(200, 8)
    names = re.findall(r"^dn: GlueCEUniqueID=(ce-\d+),", site, re.MULTILINE)
    assert names == [f"ce-{n}" for n in range(1, 201)]
    admitted = Counter(re.findall(r"^GlueCEAccessControlBaseRule: (VO:vo\d)$", site, re.MULTILINE))
    assert (sum(admitted.values()), len(admitted)) == (200 * ADMITTED, 8)


def test_the_configuration_names_everything_that_the_host_has_elsewhere() -> None:
    lines = configuration(SETTINGS, Path("/p"), "/usr/lib/ldap", None).splitlines()
    for line in (
        "threads 4",
        "idletimeout 60",
        "directory /p/db",
        "moduleload back_mdb",
        "pidfile /p/slapd.pid",
    ):
        assert line in lines
    assert lines.index("idletimeout 60") < lines.index("database mdb")
    assert not [line for line in lines if line.startswith("TLS")]
    tls = ServerCertificate(Path("/c"), Path("/k"), Path("/ca"))
    secure = configuration(SETTINGS, Path("/p"), None, tls).splitlines()
    assert "TLSCACertificateFile /ca" in secure and "TLSVerifyClient try" in secure
    required = configuration(SETTINGS, Path("/p"), None, replace(tls, is_required=True)).splitlines()
    assert "TLSVerifyClient demand" in required
    assert not [line for line in secure if line.startswith("moduleload")]


def test_the_share_of_the_reader_is_subtracted() -> None:
    def entry(dn: str, **attributes: str) -> Entry:
        return Entry(dn, {name: [value] for name, value in attributes.items()})

    found = reading(
        [
            entry("cn=Search,cn=Operations,cn=Monitor", monitorOpCompleted="12"),
            entry("cn=Total,cn=Connections,cn=Monitor", monitorCounter="4"),
            entry("cn=Current,cn=Connections,cn=Monitor", monitorCounter="3"),
            entry("cn=Active,cn=Threads,cn=Monitor", monitoredInfo="2"),
            entry("cn=Databases,cn=Monitor"),
        ],
        {"search": 2.0, "connections": 1.0},
    )
    assert found.counters == {"search": 10.0, "connections": 3.0}
    assert found.gauges == {"connections_open": 2.0, "threads_active": 1.0}
    with pytest.raises(ValueError, match="no counters"):
        reading([], {})


def test_elements_are_read_with_any_length() -> None:
    long = element(4, b"x" * 300)
    assert long[:4] == b"\x04\x82\x01\x2c"
    assert split(long + b"rest") == (4, b"x" * 300, b"rest")
    assert split(long[:-1]) is None
    assert split(b"\x30") is None
    assert list(elements(element(4, b"a") + element(2, b"b"))) == [(4, b"a"), (2, b"b")]
    for wrong in (b"\x30\x80", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x84\x40\x00\x00\x00"):
        with pytest.raises(ValueError, match="element"):
            split(wrong)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n" + b" " * 200, "LDAP|element|unpack"),
        (bytes.fromhex("300c02010161070a013104000400"), "LDAP result 49"),
        (b"", "closed the connection"),
    ],
)
def test_a_server_that_does_not_accept_the_reader(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises((OSError, ValueError), match=message):
            LdapClient(*server.getsockname())
        thread.join()
