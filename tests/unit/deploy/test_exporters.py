"""Exporters of metrics: the readings from their pages, and faulty servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from tests.unit.deploy.test_exposition import NODE, SQUID

from plimsoll.deploy.counters import Reading, prometheus
from plimsoll.deploy.counters.exporters import SquidPages, node_reading, node_version
from plimsoll.deploy.counters.exposition import Sample, samples
from plimsoll.deploy.counters.prometheus import PrometheusReader
from plimsoll.deploy.counters.tally import Tally
from plimsoll.plan.model.cell import WatchedExporter
from plimsoll.plan.source.secret import Secret


def all_samples(page: str) -> list[Sample]:
    return list(samples(page, lambda name: True))


def test_a_node_exporter_gets_the_names_of_the_monitor() -> None:
    reading = node_reading(all_samples(NODE))
    busy = 105.1 + 89.93 + 6.91 + 1000.37 + 5936.52  # of core 0, as in the page, without idle and iowait
    assert reading.counters["cpu.busy 0"] == pytest.approx(busy)
    assert reading.counters["cpu.all 0"] == pytest.approx(busy + 5353.88 + 21.43)
    assert reading.counters["cpu.all"] == pytest.approx(
        reading.counters["cpu.all 0"] + reading.counters["cpu.all 1"]
    )
    assert reading.counters["cpu.steal"] == pytest.approx(6.91 + 7.18)
    assert reading.counters["net.receive eth0"] == 1321299363
    assert reading.counters["disk.busy vda"] == 198.192
    assert reading.counters["psi.io.full"] == 55.022224
    assert reading.gauges["memory.used"] == 25276514304 - 24725401600
    assert not [name for name in reading.gauges if name.startswith("net.speed")], "-1: the speed is not known"
    assert node_version(all_samples(NODE)).endswith(" on vm")


def squid_page(requests: int, *, infos: bool = False) -> list[Sample]:
    page = SQUID.replace("squid_client_http_requests_total 0", f"squid_client_http_requests_total {requests}")
    return all_samples(page + ("squid_info_Number_of_clients_accessing_cache 1\n" if infos else ""))


def test_a_squid_exporter_gets_the_names_of_the_cache_manager() -> None:
    reading = SquidPages().reading(squid_page(7))
    assert reading.counters["client_http.requests"] == 7
    assert {"client_http.hit_kbytes_out", "server.all.requests", "server.http.errors", "swap.ins"} <= set(
        reading.counters
    )


def test_requests_of_the_exporter_itself_are_subtracted() -> None:
    pages = SquidPages()
    requests = [pages.reading(squid_page(value)).counters["client_http.requests"] for value in (10, 12, 19)]
    assert requests == [10, 10, 15], "two for each page: counters and service times"
    assert pages.reading(squid_page(4)).counters["client_http.requests"] == 4, "Squid was restarted"
    with_infos = SquidPages()
    with_infos.reading(squid_page(10, infos=True))
    assert with_infos.reading(squid_page(13, infos=True)).counters["client_http.requests"] == 10


def test_pages_of_other_programs_are_rejected() -> None:
    with pytest.raises(ValueError, match="no node_cpu_seconds_total"):
        node_reading(all_samples(SQUID))
    with pytest.raises(ValueError, match="no squid_client_http_requests_total"):
        SquidPages().reading(all_samples(NODE))
    with pytest.raises(ValueError, match="cannot reach its Squid"):
        SquidPages().reading(all_samples('squid_up{host="localhost"} 0\n'))


# -- sums of readings


def test_a_counter_that_decreases_was_reset() -> None:
    tally = Tally()
    assert [tally.add(Reading({"a": value})) for value in (100.0, 130.0, 20.0, 25.0)] == [
        False,
        False,
        True,
        False,
    ]
    assert tally.increases == {"a": 30 + 20 + 5}


def test_series_may_appear_and_disappear() -> None:
    tally = Tally()
    tally.add(Reading({'asked{code="200"}': 50.0, "cpu.all 0": 10.0}))
    tally.add(Reading({'asked{code="200"}': 60.0, 'asked{code="503"}': 2.0, "cpu.all 1": 999.0}))
    tally.add(Reading({'asked{code="200"}': 61.0, "cpu.all 1": 1000.0}))
    tally.add(Reading({'asked{code="200"}': 62.0, 'asked{code="503"}': 3.0}))
    assert tally.increases == {
        'asked{code="200"}': 12.0,
        'asked{code="503"}': 3.0,  # the first event of its kind occurred in between
        "cpu.all 0": 0.0,
        "cpu.all 1": 1.0,  # a core that was switched on counts since the host was started
    }


def test_gauges_have_a_mean_and_a_peak() -> None:
    tally = Tally()
    for value in (1.0, 5.0, 3.0):
        tally.add(Reading({}, {"load": value}))
    load = tally.gauges["load"]
    assert (load.last, load.peak, load.total / load.times) == (3.0, 5.0, 3.0)


# -- over HTTP


@contextmanager
def serving(answer: Callable[[socket.socket], None], requests: list[bytes] | None = None) -> Iterator[str]:
    """Answers one request after the other, each on its own connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        request = connection.recv(65536)
                        if requests is not None:
                            requests.append(request)
                        answer(connection)
                    except OSError:
                        pass  # the client has had enough

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def page_of(body: bytes, head: bytes = b"200 OK") -> Callable[[socket.socket], None]:
    return lambda to: to.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (head, len(body), body))


def watched(url: str, metrics: Sequence[str] = ("a*",), **more: object) -> WatchedExporter:
    named = {"kind": "other", "every_ns": 10**9, **more}
    return WatchedExporter(name="x", url=url, shown=url, host="127.0.0.1", metrics=tuple(metrics), **named)  # type: ignore[arg-type]


def test_metrics_that_are_selected_by_name_keep_their_names() -> None:
    body = b'# TYPE asked counter\nasked{code="200"} 3\n# TYPE active gauge\nactive 2\nother 9\n'
    with serving(page_of(body)) as url:
        reader = PrometheusReader(watched(url, ["asked", "act*", "absent_*"]))
        assert reader.read() == Reading({'asked{code="200"}': 3.0}, {"active": 2.0})
        assert reader.unmatched == ("absent_*",)


def test_headers_are_sent_with_their_secrets() -> None:
    requests: list[bytes] = []
    with serving(page_of(b"a 1\n"), requests) as url:
        PrometheusReader(
            watched(url + "?collect[]=cpu", headers={"Authorization": Secret("Basic dTpw")})
        ).read()
    assert b"GET /metrics?collect[]=cpu HTTP/1.1\r\n" in requests[0]
    assert b"Authorization: Basic dTpw\r\n" in requests[0]
    assert b"Accept-Encoding: identity\r\n" in requests[0]


def endless(to: socket.socket) -> None:
    to.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        to.sendall(b"# nothing of use\n" * 4000)


def dripping(to: socket.socket) -> None:
    to.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        to.sendall(b"a")
        time.sleep(0.02)


def silent(to: socket.socket) -> None:
    to.recv(1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (endless, "larger than 1 MiB|takes longer"),
        (dripping, "takes longer"),
        (silent, "timed out"),
        (page_of(b"no", b"503 Busy"), "the status of the answer is 503 Busy"),
        (page_of(b"", b"302 Found"), "the status of the answer is 302 Found"),
        (page_of(b"<html>log in</html>"), "the page has no metric of a"),
        (page_of(bytes(range(256)) * 50), "the page has no metric of a"),
        (page_of(b"a NaN\n"), "the page has no metric of a"),
        (page_of(b"".join(b'a{n="%d"} 1\n' % number for number in range(501))), "more than 500"),
        (page_of(b"".join(b'a{n="%d"} 1\n' % number for number in range(20_001))), "more than 20,000"),
        (lambda to: to.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "SSH-2.0"),
        (lambda to: to.close(), "closed connection|reset"),
    ],
)
def test_faulty_servers_are_reported(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None], message: str
) -> None:
    slow = answer in (endless, dripping, silent)
    monkeypatch.setattr(prometheus, "TIMEOUT_S", 0.5 if slow else 60.0)
    monkeypatch.setattr(prometheus, "MAX_BYTES", 2**20)
    with serving(answer) as url, pytest.raises(Exception, match=message):
        PrometheusReader(watched(url, ["a"])).read()
