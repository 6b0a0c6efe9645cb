"""Connect and TLS handshake times of a real nginx, which logs each of its connections."""

from __future__ import annotations

import pyarrow.parquet as pq

from tests.conftest import Lab
from tests.real.test_probe import Site, site

__all__ = ["site"]

FILE = """
plimsoll: 1
name: connections
workload:
  driver: http
  target: "https://localhost:{port}"
  http: {{path: /, connection: {connection}, tls: {{verify: false}}}}
load: {{testers: 3, think: 1ms}}
run: {{until: {{each_tester: 20}}, warmup: 0s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}
thresholds: [{{metric: tls_handshake, test: p(50)<10s}}, {{metric: connect, test: max<10s}}]
"""


def test_every_new_connection_is_timed(lab: Lab, site: Site) -> None:
    for connection, opened in (("per-request", 60), ("kept", 3)):
        done = lab.run("run", lab.file(FILE.format(port=site.secure, connection=connection)))
        assert done.code == 0, done.err
        (run,) = lab.run("show", lab.results(), "--json").json["runs"]
        found = run["connections"]
        assert (found["opened"], found["connect_ms"]["count"]) == (opened, opened)
        assert found["tls_handshake_ms"]["count"] == opened
        assert found["connect_ms"]["max"] > 0 and found["tls_handshake_ms"]["max"] > 0
        (lookup,) = found["lookups"]
        assert (lookup["agent"], lookup["name"]) == ("local", "localhost")
        assert 0 < lookup["ms"] < 20_000
        said = " ".join(done.out.split())
        assert f"connections.......: {opened} opened, connect" in said
        assert "TLS handshake" in said and "name lookup" in said
        place = lab.results() / "runs" / "0001"
        new = pq.read_table(place / "transactions.parquet").column("connected").to_pylist()
        assert sum(each is not None and each >= 0 for each in new) == opened
