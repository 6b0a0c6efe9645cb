"""A server that accepts more slowly than its clients connect: its listen queue is full."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from tests.conftest import Lab

SERVER = """\
import socket, sys, time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(2)
while True:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(2)
        try:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
        except OSError:
            pass
    time.sleep(0.05)
"""


def test_a_full_listen_queue_of_a_service_is_reported_and_does_not_invalidate_the_run(
    lab: Lab, tmp_path: Path
) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER, encoding="utf-8")
    text = f"""
plimsoll: 1
name: full
services:
  web: {{kind: command, command: [python3, "{server}", "{{port}}"]}}
workload: {{driver: http, target: web, timeout: 1200ms, http: {{path: /}}}}
load: {{testers: 10}}
run: {{duration: 2s}}
responses:
  - {{metric: listen_drops.web}}
  - {{metric: listen_queue.web}}
  - {{metric: sockets.host}}
  - {{metric: run_queue.host}}
thresholds:
  - {{metric: listen_drops.web, test: "rate<1000/s"}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}}
"""
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    [run] = done.json["runs"]
    assert run["valid"], run["reasons"]
    [condition] = [entry for entry in run["conditions"] if entry["kind"] == "listen queue"]
    values = condition["values"]
    assert condition["component"] == "web"
    # Three connections wait, one is served: six testers and their repeated SYN find the queue full.
    assert values["drops"] >= 6
    assert values["queue"] >= values["backlog"] == 2
    assert values["slow"] + values["failed"] > 0
    assert any("The listen queue of web" in sentence for sentence in done.json["answer"]), done.json["answer"]
    [web] = [entry["kernel"] for entry in run["components"] if entry["component"] == "web"]
    assert web["listen_drops"] > 0
    assert 1 <= web["listen_queue"] <= 3
    [shown] = [entry for entry in run["component_series"]["components"] if entry["component"] == "web"]
    assert {"listen_queue", "listen_drops"} <= set(shown["resources"])
    samples = pq.read_table(next(lab.directory.glob("**/samples.parquet"))).to_pylist()
    of_service = sum(row["value"] for row in samples if row["metric"] == "listen.drops")
    of_host = sum(row["value"] for row in samples if row["metric"] == "tcp.listen_drops")
    assert of_service >= values["drops"]
    assert of_host > 0


def test_the_threads_of_a_catalogue_are_all_in_use(lab: Lab) -> None:
    text = (
        "plimsoll: 1\nname: few-threads\n"
        "services:\n  db: {kind: sqlite}\n  files: {kind: catalogue, database: db, threads: 2}\n"
        "data: {entries: {into: db, kind: catalogue, entries: 100}}\n"
        "workload: {driver: catalogue, target: files, timeout: 20s,\n"
        "  catalogue: {data: {entries: 100}, connection: kept}}\n"
        "load: {testers: 5, think: 20ms}\nrun: {warmup: 2s, duration: 7s}\n"
    )
    [run] = lab.run("run", lab.file(text), "--json", "--no-probe").json["runs"]
    [condition] = [one for one in run["conditions"] if one["kind"] == "workers in use"]
    assert condition["component"] == "files"
    assert condition["values"]["workers"] == 2 and condition["values"]["waiting"] == 3
    assert condition["text"] == (
        "the 2 threads of files were all in use, and on average 3.0 connections waited for one"
    )
