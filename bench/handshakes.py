"""TLS handshakes a second of the file catalogue, beside OpenSSL's own server, with certificates and grid proxies.
`python bench/handshakes.py [--rounds 5] [--seconds 5]`

First part: `openssl s_time -new` on one core connects to a server on the other, to `openssl s_server` and to the
catalogue in rotation, with the same certificates (RSA, 2,048 bits). s_time sends no chain, hence no proxy.
Second part: four testers of the driver `catalogue` query over one connection per call, with their certificate and with
a proxy each. The figures contain the query.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import parts

ENGINE: Final = parts.ROOT / "target" / "engine" / "plimsoll-engine"
CONNECTED: Final = re.compile(r"^(\d+) connections in (\d+) real seconds", re.MULTILINE)
USER: Final = re.compile(r"^(\d+) connections in ([0-9.]+)s;", re.MULTILINE)
READY_S: Final = 10.0


def make_certificates(place: Path) -> None:
    """An authority, a host and a user, as those that a service makes for itself."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)

    authority = "-subj /O=Bench/CN=authority -keyout ca.key -out ca.pem"
    openssl(*f"req -x509 -newkey rsa:2048 -nodes -days 2 {authority}".split())
    for name, extension in (
        ("host", "subjectAltName=IP:127.0.0.1"),
        ("user", "keyUsage=critical,digitalSignature"),
    ):
        (place / f"{name}.ext").write_text(extension)
        openssl(
            *f"req -newkey rsa:2048 -nodes -subj /O=Bench/CN={name} -keyout {name}.key -out {name}.csr".split()
        )
        openssl(
            *f"x509 -req -in {name}.csr -out {name}.pem -days 2 -extfile {name}.ext -CA ca.pem -CAkey ca.key".split(),
            "-set_serial",
            "2",
        )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def server(words: Sequence[str | Path], place: Path, core: int, port: int, given: str = "") -> Iterator[None]:
    """A server on a core, from when it accepts connections. `given`: its whole input."""
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *words],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    try:
        if given:
            process.stdin.write(given)
            process.stdin.close()
        end = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > end or process.poll() is not None:
                    sys.exit(f"{words[0]} does not accept connections")
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)
        process.stdin.close()


def s_time(place: Path, core: int, port: int, seconds: int) -> parts.Measured:
    """Handshakes a second, and the CPU time of the client for each."""
    words = f"openssl s_time -connect 127.0.0.1:{port} -new -time {seconds} -cert user.pem -key user.key -CAfile ca.pem"
    done = subprocess.run(
        ["taskset", "-c", str(core), *words.split()], cwd=place, capture_output=True, text=True, check=False
    )
    real, user = CONNECTED.search(done.stdout), USER.search(done.stdout)
    if real is None or user is None or not int(real[1]):
        sys.exit(f"s_time failed:\n{done.stdout}{done.stderr}")
    return parts.Measured(int(real[1]) / seconds, float(user[2]) / int(user[1]) * 1e6)


def of_openssl(place: Path, seconds: int) -> parts.Measured:
    at, client = parts.cores()
    port = free_port()
    words = f"openssl s_server -accept 127.0.0.1:{port} -cert host.pem -key host.key -CAfile ca.pem -Verify 3"
    with server([*words.split(), "-verify_return_error", "-num_tickets", "0", "-www"], place, at, port):
        return s_time(place, client, port, seconds)


def of_catalogue(place: Path, seconds: int) -> parts.Measured:
    at, client = parts.cores()
    port = free_port()
    files = {
        f"{key}_file": str(place / name)
        for key, name in (("cert", "host.pem"), ("key", "host.key"), ("ca", "ca.pem"))
    }
    config = json.dumps({"database": str(place / "none.db"), "security": "tls", **files})
    words: list[str | Path] = [ENGINE, "serve", "catalogue", "--config", "-", "--listen", f"127.0.0.1:{port}"]
    with server(words, place, at, port, config):
        return s_time(place, client, port, seconds)


def queries(tls: Mapping[str, Any], seconds: int) -> tuple[float, float]:
    """Queries a second over a connection each, and the CPU time of the catalogue for one, microseconds."""
    document = {
        "plimsoll": 1,
        "name": "handshakes-bench",
        "services": {
            "db": {"kind": "sqlite"},
            "files": {"kind": "catalogue", "database": "db", "security": "tls"},
        },
        "data": {"entries": {"into": "db", "kind": "catalogue", "entries": 2000}},
        "workload": {
            "driver": "catalogue",
            "target": "files",
            "catalogue": {"data": {"entries": 2000}, "connection": "per-request", "verify": "0%", "tls": tls},
        },
        "load": {"testers": 4, "think": "0s"},
        "run": {"warmup": "1s", "duration": f"{seconds}s"},
        # The bench looks at the service. That the testers are busy with signatures is known.
        "validity": {"lateness_floor": "100s", "tester_cpu": "100%", "trend": False, "steal": "100%"},
    }
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "bench.yaml"
        file.write_text(json.dumps(document))
        found = parts.plimsoll("run", str(file), "--out", str(Path(place) / "out"))
    run = found["runs"][0]
    if run["counts"]["failed"] or not run["counts"]["balanced"]:
        sys.exit(f"the run is not sound: {run['counts']}")
    rate = run["throughput_per_s"]
    return rate, run["utilization"]["files"]["detail"].get("cores_used", 0.0) / rate * 1e6


def spread(values: Sequence[float]) -> str:
    """Median (min to max)."""
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    args = parser.parse_args()
    print(parts.machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_certificates(place)
        contenders = {
            "openssl s_server": partial(of_openssl, place, args.seconds),
            "catalogue": partial(of_catalogue, place, args.seconds),
        }
        found = parts.in_rotation(contenders, args.rounds)
    for line in parts.table(found, "openssl s_server", "handshakes/s of openssl s_time"):
        print(line)
    modes: dict[str, dict[str, Any]] = {"certificate": {}, "a proxy for each tester": {"proxy": "tester"}}
    costs: dict[str, list[tuple[float, float]]] = {mode: [] for mode in modes}
    for number in range(args.rounds):
        for mode, tls in modes.items():
            costs[mode].append(queries(tls, args.seconds))
            print(f"  round {number + 1}: {mode} {costs[mode][-1]}", file=sys.stderr)
    print("\n| queries over a connection each | queries/s | CPU us of the catalogue |\n|---|---|---|")
    for mode, values in costs.items():
        print(f"| {mode} | {spread([rate for rate, _ in values])} | {spread([cpu for _, cpu in values])} |")


if __name__ == "__main__":
    main()
