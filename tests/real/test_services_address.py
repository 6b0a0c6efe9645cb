"""Services for testers of other hosts: all kinds listen, are ready, filled and counted at one address of this host."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.services import RunningServices
from plimsoll.errors import BadInput
from tests.conftest import missing
from tests.unit.plan.helpers import BASE, load

FILE = """\
plimsoll: 1
services:
  pg:    {kind: postgres}
  maria: {kind: mariadb}
  gate:  {kind: frontier, database: pg}
  upper: {kind: squid, origin: gate}
  lower: {kind: squid, parents: [upper]}
  front: {kind: nginx, origin: gate}
  web:   {kind: echo}
  own:
    kind: command
    command: [python3, -m, http.server, "{port}", --bind, "{address}", --directory, "{dir}"]
    ready: {http: /}
data:
  one: {into: pg, rows: 3, row: 20B, types: [text]}
  two: {into: maria, rows: 3, row: 20B, types: [text]}
workload: {driver: http, target: web}
load: {testers: 1}
run: {duration: 1s}
"""


def own_address() -> str:
    """An address of this host that is not of loopback."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            found = str(probe.getsockname()[0])
        except OSError:
            found = "127.0.0.1"
    if found.startswith("127."):
        missing("a network address beside loopback", "connect this host to a network")
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServices, str]]:
    address = own_address()
    fleet = RunningServices(find_engine(), tmp_path_factory.mktemp("site") / "work", lambda: None, address)
    try:
        fleet.ensure(load(FILE).cells[0].config, {}, same_cell=False)
        yield fleet, address
    finally:
        fleet.stop()


def test_every_service_is_at_the_address_and_not_on_loopback(fleet: tuple[RunningServices, str]) -> None:
    services, address = fleet
    found = services.addresses()
    assert set(found) == {"pg", "maria", "gate", "upper", "lower", "front", "web", "own"}
    for name, [url] in found.items():
        place = urlsplit(url)
        assert place.hostname == address, name
        socket.create_connection((address, place.port), timeout=5).close()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", place.port), timeout=5)


@pytest.mark.parametrize("name", ["gate", "upper", "front", "web", "own"])
def test_those_that_speak_http_answer(fleet: tuple[RunningServices, str], name: str) -> None:
    with closing(
        http.client.HTTPConnection(urlsplit(fleet[0].addresses()[name][0]).netloc, timeout=10)
    ) as connection:
        connection.request("GET", "/")
        assert connection.getresponse().status < 500


def test_a_forward_proxy_passes_on(fleet: tuple[RunningServices, str]) -> None:
    found = fleet[0].addresses()
    with closing(http.client.HTTPConnection(urlsplit(found["lower"][0]).netloc, timeout=10)) as connection:
        connection.request("GET", f"{found['upper'][0]}/")
        assert connection.getresponse().status < 500


def test_databases_let_the_account_of_the_experiment_in_and_nobody_else(
    fleet: tuple[RunningServices, str],
) -> None:
    found = fleet[0].addresses()
    with psycopg.connect(found["pg"][0], connect_timeout=5) as connection:
        row = connection.execute("SELECT count(*) FROM one").fetchone()
        assert row == (3,)
    place = urlsplit(found["pg"][0])
    with pytest.raises(psycopg.OperationalError, match=r"no password|authentication failed"):
        psycopg.connect(
            host=place.hostname, port=place.port, user="postgres", dbname="postgres", connect_timeout=5
        )
    place = urlsplit(found["maria"][0])
    host, port = str(place.hostname), place.port or 0
    maria = pymysql.connect(host=host, port=port, user="plimsoll", database=place.path[1:], connect_timeout=5)
    with closing(maria), maria.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM two")
        assert cursor.fetchone() == (3,)
    with pytest.raises(pymysql.Error):
        pymysql.connect(host=host, port=port, user="root", connect_timeout=5)


def test_their_counters_are_read(fleet: tuple[RunningServices, str]) -> None:
    read = set()
    for service in fleet[0].running:
        if service.counters is not None:
            source = service.counters()
            source.open()
            assert source.read().counters, service.spec.name
            source.close()
            read.add(service.spec.name)
    assert read == {"pg", "maria", "gate", "upper", "lower", "front", "web"}


def test_an_address_that_is_not_of_this_host(tmp_path: Path) -> None:
    config = load(BASE).cells[0].config
    fleet = RunningServices(find_engine(), tmp_path / "work", lambda: None, "198.51.100.1")
    try:
        with pytest.raises(BadInput, match=r"services cannot listen on 198\.51\.100\.1"):
            fleet.ensure(config, {}, same_cell=False)
    finally:
        fleet.stop()
    with pytest.raises(BadInput, match=r"the name nowhere\.invalid cannot be resolved"):
        RunningServices(find_engine(), tmp_path / "work", lambda: None, "nowhere.invalid")
