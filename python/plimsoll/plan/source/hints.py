"""Advice for users who write names or keys of other tools."""

from __future__ import annotations

from typing import Final

OF_METRICS: Final = {
    "latency": "response",
    "duration": "response",
    "http_req_duration": "response",
    "response_time": "response",
    "http_req_failed": "errors",
    "error_rate": "errors",
    "failures": "errors",
    "rps": "throughput",
    "qps": "throughput",
    "tps": "throughput",
    "requests": "throughput",
    "http_reqs": "throughput",
}
"""Common names of metrics, such as those of k6, Locust and JMeter -> names of Plimsoll."""

OF_KEYS: Final = {
    "steps": "use `load.stages` to change the load in steps, or `workload.mix` for several requests",
    "stages": "stages are a key of `load`: {stages: [{for: 30s, testers: 10}]}",
    "scenarios": "use `workloads` for several populations",
    "vus": "use `load.testers` for the number of users",
    "users": "use `load.testers` for the number of users",
    "duration": "use `run.duration` for the duration",
    "iterations": "to end a run after a number of requests, use `run.until`: {transactions: 1000}",
    "watch": "`watch` is a key of a target: targets: {site: {endpoints: [...], watch: [...]}}",
}
"""Unknown keys -> advice."""

_THRESHOLD: Final = 'for example {metric: response, test: "p(95)<200ms"}'
_CHART: Final = "for example {x: size, y: [throughput, response_p95], by: zip}"
OF_SHAPES: Final = {
    "thresholds": f"expected a list of thresholds, {_THRESHOLD}",
    "thresholds.*": f"expected a threshold, {_THRESHOLD}",
    "charts": f"expected a list of charts, {_CHART}",
    "charts.*": f"expected a chart, {_CHART}",
    "workload.target": (
        "expected the name of one target; use `targets: {site: {endpoints: [URL, URL]}}` for several "
        "endpoints, `workloads` for several populations"
    ),
    "hosts": "expected a file name, or hosts such as {kind: ssh, hosts: [node1, node2]}",
    "hosts.hosts.*": "expected the name or address of a host, or a mapping such as {host: node1, agents: 2}",
    "load": "expected a load, for example {testers: 4} or {rate: 100/s}",
    "run": "expected the length of a run, for example {warmup: 5s, duration: 30s}",
}
"""Paths, `*` for any index -> the message if the value has another type."""


def of_shape(path: tuple[str | int, ...]) -> str | None:
    """The message for a path in OF_SHAPES if the value has another type; None for other paths."""
    if len(path) > 1 and isinstance(path[-1], int) and (path[-2] == "hosts" or "sites" in path[:-1]):
        return OF_SHAPES["hosts.hosts.*"]
    return OF_SHAPES.get(".".join("*" if isinstance(part, int) else part for part in path))
