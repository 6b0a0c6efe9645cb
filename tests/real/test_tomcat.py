"""A real Tomcat with a small web application that the test compiles."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.counters.tomcat import QUERIES
from plimsoll.deploy.programs import find
from plimsoll.deploy.servers.java import tomcat_home
from plimsoll.deploy.servers.needs import missing_programs
from tests.conftest import Lab, missing
from tests.real.second_host import second_host
from tests.real.test_services import events, place, record, run, service, stored
from tests.real.test_tiers import HOW, false_alarms
from tests.real.test_tiers import REST as REST_OF_TIERS
from tests.real.test_trouble import wait_for

SERVLET = """
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.*;
import java.io.*;
import java.net.URI;

@WebServlet("/data")
public class Data extends HttpServlet {
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getParameter("fail") != null) { response.sendError(503); return; }
        URI origin = URI.create(System.getProperty("origin"));
        boolean agree = System.getenv("SITE").equals("" + origin.getPort())
            && System.getProperty("sign").equals(" \\u00b5=\\\\ ");
        if (!agree) { response.sendError(500); return; }
        response.setContentType("text/plain");
        try (InputStream in = origin.toURL().openStream()) {
            in.transferTo(response.getOutputStream());
        }
    }
}
"""
PROPERTIES = r"""properties: {origin: "{origin.url}/x", sign: " µ=\\ "}
    env: {SITE: "{origin.port}"}"""
"""What the servlet checks."""
REST = """
design: {seed: 1, order: listed}
run: {duration: 60s, until: {transactions: 300}, drain: 2s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, steal: 100%, trend: false}     # the machine may be busy
"""

__all__ = ["place"]  # the fixture


def needs_tomcat() -> None:
    """Skips where Tomcat or a Java compiler is not installed."""
    for text in missing_programs({"tomcat"}):
        what, _, command = text.rpartition(": ")
        missing(what, command)
    if find(["javac"]) is None:
        missing("javac", "apt-get install default-jdk-headless")


@pytest.fixture(scope="module")
def war(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A web application with a servlet that reads from its origin, and a page. Only its owner can read it."""
    needs_tomcat()
    directory = tmp_path_factory.mktemp("war")
    (directory / "Data.java").write_text(SERVLET)
    api = Path(tomcat_home("test")) / "lib" / "servlet-api.jar"
    subprocess.run(
        ["javac", "-cp", api, "-d", directory, directory / "Data.java"], check=True, capture_output=True
    )
    path = directory / "site.war"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(directory / "Data.class", "WEB-INF/classes/Data.class")
        archive.writestr("index.html", "x" * 500)
    path.chmod(0o600)
    yield path


def tiers(found: dict[str, Any], at: int = 0) -> dict[str, dict[str, Any]]:
    return {tier["service"]: tier for tier in found["runs"][at]["tiers"]}


def test_a_servlet_that_reads_from_its_origin_and_is_counted(lab: Lab, place: Path, war: Path) -> None:
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  origin: {{kind: echo, body: 1kB}}
  site:
    kind: tomcat
    war: {war}
    context: /app
    ready: /app/data
    heap: 64MB
    java_options: ["-XX:+UseSerialGC"]
    threads: 20
    {PROPERTIES}
workload:
  driver: http
  target: site
  timeout: 20s
  http: {{paths: [/app/data, /app/index.html, "/app/data?fail=1"]}}
load: {{testers: 3, think: 1ms}}
{REST}""",
    )
    [measured] = found["runs"]
    site, counts = service(found, "site"), measured["counts"]
    assert counts["started"] >= 300
    assert tiers(found)["site"]["difference"] == 0
    assert site["counters"]["requests"] == counts["started"]
    assert site["counters"]["errors"] == counts["started"] - counts["succeeded"] > 50
    assert tiers(found)["site"]["bytes"]["sent"] == tiers(found)["site"]["bytes"]["received"] > 100_000
    assert 0 < site["gauges"]["heap_used"] <= site["gauges"]["heap_committed"] <= 64e6
    assert site["gauges"]["threads_busy"] <= site["gauges"]["threads"] <= 20
    assert site["gauges"]["connections"] <= 3
    assert (
        0 <= site["counters"]["gc_ms"] < measured["window_s"] * 1000 and "gc_collections" in site["counters"]
    )
    assert site["version"].split(".")[0].isdigit()
    log = stored(lab, "site", "access.log").splitlines()
    assert len(log) == counts["started"]
    assert '"GET /app/data HTTP/1.1" 200 1000' in "\n".join(log)
    config = stored(lab, "site", "config")
    assert f"# {war}, SHA-256 " in config
    assert 'maxThreads="20"' in config
    assert "Server startup" not in stored(lab, "site", "log"), "the log of the run begins with the run"
    assert record(lab)["services"][1]["kind"] == "tomcat"


def short(war: Path, keys: str = "", rest: str = "") -> str:
    """An experiment with the page of the web application."""
    return f"""
plimsoll: 1
services:
  site: {{kind: tomcat, war: {war}, heap: 64MB, java_options: ["-XX:+UseSerialGC"], {keys}}}
workload: {{driver: http, target: site, timeout: 20s, http: {{path: /index.html}}}}
load: {{testers: 2, think: 1ms}}
{rest}{REST}"""


@pytest.mark.long
def test_only_counters_can_be_read_at_the_port_of_the_counters(lab: Lab, place: Path, war: Path) -> None:
    """The view of the beans could also change and call everything, so all other queries are refused."""
    text = short(war).replace("until: {transactions: 300}, ", "")
    with lab.start("run", lab.file(text), TMPDIR=str(place)) as process:
        wait_for(lambda: any((lab.directory / "results").glob("*/runs/0001/segments/*")))
        [configuration] = place.rglob("conf/server.xml")
        _, port = re.findall(r'port="(\d{2,})"', configuration.read_text())
        found = {}
        for query in (*QUERIES.values(), "get=java.lang:type=Memory&att=Verbose", "qry=*:*",
                      "set=java.lang:type=Memory&att=Verbose&val=true", "invoke=java.lang:type=Memory&op=gc",
                      f"{QUERIES['status']}&set=java.lang:type=Memory&att=Verbose&val=true"):  # fmt: skip
            for path in ("/", "/beans", "/%62eans", "/beans;x=1"):
                found[path, query] = _status_of(f"http://127.0.0.1:{port}{path}?{query}")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert {query for (_, query), status in found.items() if status == 200} == set(QUERIES.values())
    assert all(status == 403 for (_, query), status in found.items() if query not in QUERIES.values())


def _status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.long
def test_kept_connections_and_versions_are_factors(lab: Lab, place: Path, war: Path, tmp_path: Path) -> None:
    """The other Tomcat has the files of the first one. It is a version of its own for the experiment."""
    home, other = Path(tomcat_home("test")), place.parent / f"{place.name}-home"
    try:
        for name in ("bin", "lib"):
            (other / name).mkdir(parents=True)
            for file in (home / name).iterdir():
                (other / name / file.name).symlink_to(file.resolve())
        factors = f"""factors:
  keep: {{path: services.site.keep_alive, levels: [true, false]}}
  home: {{path: services.site.home, levels: [{home}, {other}]}}
"""
        found = run(lab, place, short(war, "max_keep_alive_requests: unlimited, ", factors))
    finally:
        shutil.rmtree(other, ignore_errors=True)
    connections = []
    for measured in found["runs"]:
        table = pq.read_table(lab.results() / "runs" / measured["id"] / "transactions.parquet")
        opened = table.column("connected").to_pylist()
        connections.append(sum(each is not None and each >= 0 for each in opened))
    assert connections == [2, 2, *(one["counts"]["started"] for one in found["runs"][2:])]
    assert all(tiers(found, at)["site"]["difference"] == 0 for at in range(4))
    configs = [
        (lab.results() / "runs" / f"000{at}" / "services/site/config").read_text() for at in range(1, 5)
    ]
    assert [f"catalina.home={other}" in text for text in configs] == [False, True, False, True]


@pytest.mark.long
def test_a_directory_with_a_page_that_tomcat_compiles(lab: Lab, place: Path, tmp_path: Path) -> None:
    needs_tomcat()
    site = tmp_path / "site"
    (site / "WEB-INF").mkdir(parents=True)
    (site / "page.jsp").write_text('<% out.print(application.getInitParameter("a")); %>')
    lines = """resources: ['<Parameter name="a" value="{own.port}"/>'], ready: /page.jsp, """
    text = short(site, lines).replace("services:", "services:\n  own: {kind: echo}")
    found = run(lab, place, text.replace("/index.html", "/page.jsp"))
    [measured] = found["runs"]
    assert measured["counts"]["succeeded"] == measured["counts"]["started"]
    assert tiers(found)["site"]["bytes"]["sent"] == 300 * len("12345")


@pytest.mark.long
def test_a_web_application_that_fails_is_reported_with_the_reason(
    lab: Lab, place: Path, tmp_path: Path
) -> None:
    needs_tomcat()
    broken = tmp_path / "broken.war"
    with zipfile.ZipFile(broken, "w") as archive:
        listener = "<listener><listener-class>org.example.Missing</listener-class></listener>"
        archive.writestr("WEB-INF/web.xml", f"<web-app>{listener}</web-app>")
    done = lab.run("run", lab.file(short(broken)), TMPDIR=str(place))
    assert done.code == 97
    assert f"service site: Tomcat could not start {broken}" in done.err
    assert "startup failed due to previous errors" in done.err
    assert "service-gone" in events(lab)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_false_alarm(lab: Lab, place: Path, war: Path) -> None:
    lab.limit_s = 900
    repetitions = os.environ.get("PLIMSOLL_REPETITIONS", "2")
    rest = REST_OF_TIERS.replace("order: listed", f"order: random, repetitions: {repetitions}")
    text = f"""
plimsoll: 1
services:
  origin: {{kind: delay, time: {{exponential: 2ms}}, servers: 8}}
  site:
    kind: tomcat
    war: {war}
    {PROPERTIES}
workload: {{driver: http, target: site, timeout: 5s, http: {{path: /data}}}}
{HOW.replace("DRIVER", "http")}
{rest.replace("END", "duration: 500ms")}"""
    runs = run(lab, place, text)["runs"]
    compared = [tier for measured in runs for tier in measured.get("tiers", ())]
    assert len(compared) > len(runs) / 2, "a busy machine may still send requests at the last reading"
    print(len(compared), "runs, differences:", [tier for tier in compared if tier["difference"]])
    assert false_alarms(runs) == []


@pytest.mark.long
@pytest.mark.xdist_group("second host")
def test_a_tomcat_on_a_second_host(lab: Lab, war: Path, tmp_path: Path) -> None:
    lab.limit_s = 300
    shared = Path(tempfile.mkdtemp(prefix="plimsoll-test-", dir="/tmp"))
    try:
        shared.chmod(0o755)
        shutil.copyfile(war, shared / "site.war")
        with second_host(tmp_path / "second") as second:
            hosts = f"""hosts:
  kind: ssh
  keep: nothing
  ssh: {{config: {second.config}}}
  hosts: [{{host: second, agents: 0}}]
"""
            text = short(shared / "site.war", "host: second, ready_timeout: 100s, ", hosts)
            done = lab.run("run", lab.file(text), "--json")
            assert done.code == 0, done.err
            assert tiers(done.json)["site"]["difference"] == 0
            assert service(done.json, "site")["counters"]["requests"] == 300
            assert record(lab)["services"][0]["host"] == "second"
            assert len(stored(lab, "site", "access.log").splitlines()) == 300
            assert second.files() == []
    finally:
        shutil.rmtree(shared)
