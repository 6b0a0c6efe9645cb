"""What Tomcat is started with, and what its status page contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from plimsoll.deploy.counters import tomcat as tomcat_counters
from plimsoll.deploy.programs import LocalPrograms
from plimsoll.deploy.servers.java import java_program, tomcat_home
from plimsoll.deploy.servers.tomcat import command_line
from plimsoll.deploy.servers.tomcat_files import (
    Addresses,
    Layout,
    context_xml,
    properties_text,
    server_xml,
)
from plimsoll.errors import ServiceError
from plimsoll.plan.services.filled import jdbc_url, with_addresses

LAYOUT = Layout(Path("/opt/t"), Path("/w/tomcat"))
SETTINGS: dict[str, Any] = {
    "threads": 30,
    "connections": 900,
    "keep_alive": True,
    "max_keep_alive_requests": "unlimited",
    "keep_alive_timeout": 5_000_000_000,
    "settings": {"acceptCount": 'a"<7'},
    "log": True,
}
STATUS = b"""<?xml version="1.0" encoding="utf-8"?>
<status><jvm><memory free='70' total='100' max='300'/></jvm>
<connector name='"http-nio-127.0.0.1-8081"'>
<threadInfo maxThreads="2" currentThreadCount="1" currentThreadsBusy="1" />
<requestInfo processingTime="1" requestCount="99" errorCount="0" bytesReceived="0"
bytesSent="9" />
</connector>
<connector name='"http-nio-127.0.0.1-18081"'>
<threadInfo maxThreads="50" currentThreadCount="10" currentThreadsBusy="2" />
<requestInfo processingTime="73" requestCount="12" errorCount="6" bytesReceived="5"
bytesSent="7389" />
<workers><worker stage="R" method="&#63;" /></workers></connector></status>"""


def test_the_connector_has_the_settings_of_the_file() -> None:
    server = ElementTree.fromstring(
        server_xml(SETTINGS, LAYOUT, Addresses(("10.0.0.2", 80), ("10.0.0.2", 81), ("10.0.0.1", "10.0.0.3")))
    )
    clients, status = server.iter("Connector")
    assert clients.attrib == {
        "address": "10.0.0.2",
        "port": "80",
        "protocol": "HTTP/1.1",
        "maxThreads": "30",
        "maxConnections": "900",
        "maxKeepAliveRequests": "-1",
        "keepAliveTimeout": "5000",
        "connectionTimeout": "20000",
        "acceptCount": 'a"<7',
    }
    assert status.get("port") == "81"
    log, access, reject = server.iter("Valve")
    assert log.get("directory") == "/w/tomcat/logs"
    assert access.get("allow") == "10.0.0.1,10.0.0.3"
    assert str(reject.get("className")).endswith(".RewriteValve")


@pytest.mark.parametrize(
    ("keep_alive", "most", "expected"),
    [(True, 7, "7"), (False, 7, "1"), (False, "unlimited", "1")],
)
def test_one_request_per_connection_is_no_keep_alive(keep_alive: bool, most: object, expected: str) -> None:
    changed = {**SETTINGS, "keep_alive": keep_alive, "max_keep_alive_requests": most, "log": False}
    text = server_xml(changed, LAYOUT, Addresses(("127.0.0.1", 80), ("127.0.0.1", 81)))
    server = ElementTree.fromstring(text)
    assert next(server.iter("Connector")).get("maxKeepAliveRequests") == expected
    assert len(list(server.iter("Valve"))) == 1, "on loopback, every client may read the counters"


def test_values_of_properties_are_escaped() -> None:
    text = properties_text({"a.b": " é\\u:=x", "c": "𝄞"})
    assert text == "a.b=\\u0020\\u00e9\\u005cu:=x\nc=\\ud834\\udd1e\n"


def test_the_command_has_the_heap_and_the_options() -> None:
    command = [str(word) for word in command_line(Path("/j/java"), LAYOUT, 64_000_000, ["-Da=b c"])]
    assert command[:2] == ["/j/java", "-Xmx62500k"]
    assert "-Da=b c" in command[: command.index("-cp")]
    assert "/opt/t/bin/bootstrap.jar:/opt/t/bin/tomcat-juli.jar" in command
    assert "<Resource/>" in context_xml(["<Resource/>"])


def test_addresses_of_services_are_replaced() -> None:
    urls = {"db": "postgresql://me@10.0.0.1:54/events", "my": "mysql://u@[::1]:33/d", "file": "sqlite:/d/x"}
    text = "{db.url} {db.host} {db.port} {my.jdbc} {other.url} {db.name}"
    assert with_addresses(text, urls) == (
        "postgresql://me@10.0.0.1:54/events 10.0.0.1 54 jdbc:mariadb://[::1]:33/d?user=u {other.url} {db.name}"
    )
    assert jdbc_url(urls["db"]) == "jdbc:postgresql://10.0.0.1:54/events?user=me"
    assert jdbc_url(urls["file"]) == "jdbc:sqlite:/d/x"


def test_the_status_page_is_parsed() -> None:
    found = tomcat_counters.reading(STATUS, 18081)
    assert found.counters == {
        "requests": 12,
        "errors": 6,
        "processing_ms": 73,
        "bytes_received": 5,
        "bytes_sent": 7389,
    }
    assert found.gauges == {"threads": 10, "threads_busy": 2, "heap_used": 30, "heap_committed": 100}
    assert tomcat_counters.reading(STATUS, 8081).counters["requests"] == 99
    with pytest.raises(ValueError, match="no connector on port 7"):
        tomcat_counters.reading(STATUS, 7)
    with pytest.raises(ValueError, match="not the status of Tomcat"):
        tomcat_counters.reading(b"<html>", 8081)


COLLECTORS = b"""OK - Number of results: 2\r\n\r
Name: java.lang:name=Copy,type=GarbageCollector\r
modelerType: sun.management.GarbageCollectorImpl\r
LastGcInfo: CompositeDataSupport: {CollectionTime=99,\r
 Name: y}\r
CollectionTime: 30\r
Name: Copy\r
CollectionCount: 2\r
\r
Name: java.lang:name=MarkSweepCompact,type=GarbageCollector\r
CollectionCount: 1\r
CollectionTime: 8\r
Name: MarkSweepCompact\r
"""
CONNECTORS = b"""OK - Number of results: 2\r\n\r
Name: Catalina:type=ThreadPool,name="http-nio-127.0.0.1-18081"\r
localPort: 18081\r
maxConnections: 900\r
connectionCount: 4\r
\r
Name: Catalina:type=ThreadPool,name="http-nio-127.0.0.1-18081",subType=SocketProperties\r
soTimeout: 20000\r
"""


def test_collections_and_connections_are_read_from_the_beans() -> None:
    assert tomcat_counters.collector_counters(COLLECTORS) == {"gc_collections": 3, "gc_ms": 38}
    assert tomcat_counters.connection_count(CONNECTORS, 18081) == 3, "one is counted before it is accepted"
    full = CONNECTORS.replace(b"connectionCount: 4", b"connectionCount: 900")
    assert tomcat_counters.connection_count(full, 18081) == 900, "at the limit, none is counted in advance"
    with pytest.raises(ValueError, match="reports no garbage collector"):
        tomcat_counters.collector_counters(b"OK - Number of results: 0")
    with pytest.raises(ValueError, match="no connector on port 7"):
        tomcat_counters.connection_count(CONNECTORS, 7)


class _Programs(LocalPrograms):
    """A host with these directories of programs and nothing else."""

    def __init__(self, directories: str) -> None:
        self._directories = directories

    @property
    def override(self) -> str:
        return self._directories


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_tomcat_and_a_java_are_found_where_the_user_says(tmp_path: Path) -> None:
    _script(tmp_path / "tomcat/bin/catalina.sh", "")
    java = _script(tmp_path / "jdk/bin/java", """echo 'openjdk version "1.8.0_402"' >&2""")
    search = _Programs(f"{tmp_path}/tomcat/bin:{tmp_path}/jdk/bin")
    assert tomcat_home("x", search) == tmp_path / "tomcat"
    assert java_program("x", "auto", search) == java_program("x", "8", search) == java
    assert java_program("x", str(tmp_path / "jdk"), _Programs("")) == java
    with pytest.raises(ServiceError, match=r"service x: Java 17 was not found .*openjdk-17-jre-headless"):
        java_program("x", "17", search)
    with pytest.raises(ServiceError, match="expected the home of a Java"):
        java_program("x", "/nowhere", search)
    with pytest.raises(ServiceError, match="apt-get install tomcat10-common"):
        tomcat_home("x", _Programs("/nowhere"))
