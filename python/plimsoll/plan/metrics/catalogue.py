"""The metrics, one row each: the only list of them. `metrics/table.py` explains the columns.

The order is that of the results. To add a metric, add a row; docs/metrics.md is generated from this file.
"""

from __future__ import annotations

from typing import Final

from plimsoll.plan.metrics.kernel import KERNEL_METRICS
from plimsoll.plan.metrics.table import (
    BYTES,
    Distribution,
    Kind,
    Metric,
    MetricTable,
    Part,
    Quotient,
    Scope,
    Source,
    Total,
    Value,
    Values,
)

RESPONSE_LESS_RTT: Final = "response_less_rtt"
_TIMES: Final = ("mean", "sd", "p50", "p90", "p95", "p99", "p999", "max", "min")
_CONNECTION_TIMES: Final = ("mean", "p50", "p95", "p99", "max")
_READERS: Final = "staleness.readers"
_SESSIONS: Final = "tester_sessions"
_COMPONENT: Final = "components[component={component}]"
_SERVICE: Final = "services[name={service}]"
_PER_TRANSACTION: Final = "of the successful transactions of the window"
_NETWORK: Final = "of the busiest network interface except loopback; of hosts only"
_LIVE: Final = {
    "p(50)": "response-p50",
    "p(95)": "response-p95",
    "p(99)": "response-p99",
    "med": "response-p50",
}

_FLOWS: Final = (
    ("disk_read", "bytes that {component} read", "from storage; of a host all its disks"),
    ("disk_write", "bytes that {component} wrote", "to storage; of a host all its disks"),
    ("network_in", "bytes that {component} received", _NETWORK),
    ("network_out", "bytes that {component} sent", _NETWORK),
)
"""Names, titles and notes of the flows of a component, in bytes per second."""

PEAK: Final = Scope(
    "@peak",
    "",
    "at_peak.",
    " in the peak window",
    excluded=(
        *("dropped", "missed", "outage_s", "availability", "recovery_s"),
        *("sessions_per_s", "session_errors", "session"),
    ),
    meaning="in the peak window without the warm-up; written as `over: peak`",
    divided=True,
)
PHASES: Final = (
    Scope("@before", "traffic.", "actions.before.", " before the first action"),
    Scope("@during", "traffic.", "actions.during.", " from the first action to the last"),
    Scope("@after", "traffic.", "actions.after.", " after the last action"),
)
"""The phases of a run with actions."""

PARTS: Final = tuple(
    Scope(f"@{kind}.{{{kind}}}{suffix}", "traffic.", f"{to}{path}.traffic.", f" of {title}{words}")
    for kind, path, title in (
        ("operation", "operations[operation={operation}]", "the operation {operation}"),
        ("workload", "workloads[workload={workload}]", "the workload {workload}"),
        ("first", "first[of={first}]", "the first transactions of each {first}"),
    )
    for suffix, to, words in (("", "", ""), (PEAK.suffix, PEAK.to, PEAK.title))
)
"""Parts of the transactions, of the measured window and of the peak window; written as `where`."""

METRICS = MetricTable(
    (
        Metric(
            "throughput",
            "throughput",
            Kind.RATE,
            Value("traffic.throughput_per_s"),
            unit="requests/s",
            in_results="throughput_per_s",
            aliases=("throughput_per_s",),
            short=("transactions_per_s",),
            live={"rate": "throughput", "avg": "throughput"},
            capacity=True,
        ),
        Metric(
            "items_per_s",
            "throughput in items",
            Kind.RATE,
            Value("traffic.items_per_s"),
            unit="items/s",
            short=("items",),
            capacity=True,
        ),
        Metric(
            "payload_bytes_per_s",
            "payload throughput",
            Kind.RATE,
            Value("traffic.payload_bytes_per_s"),
            unit=BYTES,
            short=("payload",),
            capacity=True,
        ),
        Metric(
            "wire_bytes_per_s",
            "throughput on the wire",
            Kind.RATE,
            Value("traffic.wire_bytes_per_s"),
            unit=BYTES,
            short=("wire",),
            capacity=True,
        ),
        Metric(
            "offered_per_s",
            "offered rate",
            Kind.RATE,
            Value("traffic.offered_per_s"),
            unit="starts/s",
            short=("offered",),
        ),
        Metric(
            "transactions",
            "transactions",
            Kind.COUNT,
            Total("traffic.transactions"),
            note="that ended in the window with success",
            response=False,
        ),
        Metric(
            "dropped",
            "dropped",
            Kind.COUNT,
            Total("counts.dropped"),
            Source.BOOKS,
            note="arrivals without a free slot (`when_full: drop`)",
            response=False,
        ),
        Metric(
            "missed",
            "missed",
            Kind.COUNT,
            Total("counts.missed"),
            Source.BOOKS,
            note="slots of `every` that a busy tester skipped (`late: skip`)",
            response=False,
        ),
        Metric(
            "concurrency",
            "concurrency",
            Kind.COUNT,
            Value("traffic.concurrency"),
            note="mean number of requests in progress",
        ),
        Metric(
            "errors",
            "error rate",
            Kind.SHARE,
            Part("traffic.error_rate", "traffic.errors", ("traffic.errors", "traffic.response_ms.count")),
            in_results="error_rate",
            as_response=("error_rate",),
            live={"rate": "error-rate", "avg": "error-rate"},
        ),
        Metric(
            "jain_index",
            "fairness (Jain's index)",
            Kind.INDEX,
            Value("jain_index"),
            rules=("avg",),
            single=True,
        ),
        Metric(
            "share_cv",
            "share cv",
            Kind.INDEX,
            Value("share_cv"),
            note="coefficient of variation of the testers' shares",
            rules=("avg",),
            single=True,
        ),
        *(
            Metric(
                name,
                f"{title} share of a tester",
                Kind.INDEX,
                Value(name),
                note="work relative to that of a fair share; 1 is fair",
                rules=("avg",),
                single=True,
            )
            for name, title in (("share_min", "smallest"), ("share_max", "greatest"))
        ),
        Metric(
            "response",
            "response time",
            Kind.TIME,
            Distribution("traffic.response_ms", "response"),
            in_results="response_ms",
            statistics=_TIMES,
            live=_LIVE,
        ),
        Metric(
            "request",
            "request time",
            Kind.TIME,
            Distribution("traffic.request_ms", "request"),
            in_results="request_ms",
            statistics=_TIMES,
            single=True,
        ),
        Metric(
            "lateness",
            "lateness",
            Kind.TIME,
            Distribution("traffic.lateness_ms", "lateness"),
            in_results="lateness_ms",
            statistics=_TIMES,
            single=True,
        ),
        Metric(
            "first_byte",
            "time to first byte",
            Kind.TIME,
            Distribution("traffic.first_byte_ms", "first_byte"),
            note="from the start of the request to the first byte of its answer",
            in_results="first_byte_ms",
            statistics=_TIMES,
            single=True,
        ),
        Metric(
            "transfer",
            "transfer time",
            Kind.TIME,
            Distribution("traffic.transfer_ms", "transfer"),
            note="from the first byte of the answer to its end",
            in_results="transfer_ms",
            statistics=_TIMES,
            single=True,
        ),
        Metric(
            RESPONSE_LESS_RTT,
            "response less round trip",
            Kind.TIME,
            Distribution("traffic.response_less_rtt_ms", RESPONSE_LESS_RTT),
            note="response time less the least round trip of the tester's connections to the endpoint; 0 if that is "
            "longer",
            in_results="response_less_rtt_ms",
            statistics=_TIMES,
            single=True,
        ),
        Metric(
            "throughput_sd",
            "standard deviation of throughput",
            Kind.RATE,
            Value("traffic.throughput_sd"),
            unit="requests/s",
            note="over the whole seconds of the window",
            spread=True,
        ),
        Metric(
            "throughput_min",
            "lowest throughput",
            Kind.RATE,
            Value("traffic.throughput_min"),
            unit="requests/s",
            note="in a whole second of the window",
            spread=True,
        ),
        Metric(
            "throughput_max",
            "highest throughput",
            Kind.RATE,
            Value("traffic.throughput_max"),
            unit="requests/s",
            note="in a whole second of the window",
            spread=True,
        ),
        Metric(
            "reads_per_s",
            "read rate",
            Kind.RATE,
            Value(f"{_READERS}.reads_per_s"),
            Source.NAMED,
            unit="reads/s",
        ),
        Metric(
            "writes_per_s",
            "rate of acknowledged writes",
            Kind.RATE,
            Value("staleness.writes_per_s"),
            Source.NAMED,
            unit="writes/s",
        ),
        Metric(
            "stale_share",
            "share of stale answers",
            Kind.SHARE,
            Part(f"{_READERS}.stale_share.mean", f"{_READERS}.stale", (f"{_READERS}.answers",)),
            Source.NAMED,
        ),
        Metric(
            "stale_age",
            "age of stale answers",
            Kind.TIME,
            Distribution(
                f"{_READERS}.stale_age_ms",
                "stale_age",
                mean=f"{_READERS}.stale_age_ms_mean",
                weight=f"{_READERS}.answers",
                some=f"{_READERS}.stale",
                absent="no answer was stale",
            ),
            Source.NAMED,
            note="the mean is over all answers; 0 where none is stale",
            in_results="stale_age_ms",
            as_response=("stale_age_ms_mean", "stale_age_ms_p50", "stale_age_ms_p95", "stale_age_ms_max"),
            statistics=("mean", "p50", "p95", "max"),
            titles={
                "mean": "mean age of all answers",
                "p50": "median age of stale answers",
                "p95": "p95 of the age of stale answers",
                "max": "greatest age of stale answers",
            },
        ),
        Metric(
            "origin_share",
            "share of origin fetches",
            Kind.SHARE,
            Part(f"{_READERS}.origin_share", f"{_READERS}.fetches", (f"{_READERS}.answers",)),
            Source.NAMED,
            note="fetches per answer",
        ),
        Metric(
            "needless_share",
            "share of needless fetches",
            Kind.SHARE,
            Part(f"{_READERS}.needless_share.mean", f"{_READERS}.needless", (f"{_READERS}.fetches",)),
            Source.NAMED,
            note="of all fetches",
        ),
        Metric(
            "sessions_per_s",
            "session rate",
            Kind.RATE,
            Value(f"{_SESSIONS}.per_s"),
            Source.NAMED,
            unit="sessions/s",
            note="successful sessions of `session:`; a session counts by the part of its duration in the window",
            aliases=("sessions",),
            capacity=True,
        ),
        Metric(
            "session_errors",
            "share of failed sessions",
            Kind.SHARE,
            Part(f"{_SESSIONS}.failed_share", f"{_SESSIONS}.failed", (f"{_SESSIONS}.finished",)),
            Source.NAMED,
            note="of the sessions that ended in the window",
            in_results="session_error_rate",
        ),
        Metric(
            "session",
            "session time",
            Kind.TIME,
            Distribution(f"{_SESSIONS}.duration_ms", "session"),
            Source.NAMED,
            note="from the start of a session to its end, of the successful sessions that ended in the window",
            in_results="session_ms",
            statistics=_CONNECTION_TIMES,
        ),
        Metric(
            "connect",
            "connect time",
            Kind.TIME,
            Distribution("connections.connect_ms", "connect"),
            Source.NAMED,
            note="of each TCP connection opened in the run, warm-up included; name lookup and TLS are not part of it",
            in_results="connect_ms",
            statistics=_CONNECTION_TIMES,
        ),
        Metric(
            "tls_handshake",
            "TLS handshake time",
            Kind.TIME,
            Distribution("connections.tls_handshake_ms", "tls_handshake"),
            Source.NAMED,
            note="of each TLS connection opened in the run, warm-up included",
            in_results="tls_handshake_ms",
            statistics=_CONNECTION_TIMES,
        ),
        Metric(
            "outage_s",
            "time without success",
            Kind.TIME,
            Value("actions.outage_ms"),
            note="all outages together, in a run with actions",
            in_results="outage_ms",
            aliases=("outage",),
        ),
        Metric(
            "availability",
            "availability",
            Kind.SHARE,
            Part("actions.availability", "actions.succeeded_in_time", ("actions.planned_starts",)),
            note="share of the planned starts that succeeded within the response-time objective, in a run with actions",
        ),
        Metric(
            "recovery_s",
            "recovery time",
            Kind.TIME,
            Value("actions.recovery_ms"),
            note="from the last action of an incident until throughput and response time are as before; the longest of "
            "a run; unknown if there was no recovery",
            in_results="recovery_ms",
            aliases=("recovery",),
        ),
        Metric(
            "utilization.{component}",
            "utilization of {component}",
            Kind.RESOURCE,
            Value(f"{_COMPONENT}.utilization"),
            Source.SAMPLES,
            note="busy share of its binding resource",
        ),
        Metric(
            "cpu.{component}",
            "CPU use of {component}",
            Kind.COUNT,
            Value(f"{_COMPONENT}.cpu"),
            Source.SAMPLES,
            unit="cores",
            note="mean number of busy cores",
            rules=("avg",),
        ),
        Metric(
            "memory.{component}",
            "memory of {component}",
            Kind.SIZE,
            Value(f"{_COMPONENT}.memory"),
            Source.SAMPLES,
            live={"avg": "memory"},
            note="mean; of a service the resident set sizes of its processes",
        ),
        Metric(
            "own_memory.{component}",
            "own memory of {component}",
            Kind.SIZE,
            Value(f"{_COMPONENT}.own_memory"),
            Source.SAMPLES,
            live={"avg": "own-memory"},
            note="mean; of processes, each shared page counted once; of a service with limits, without the page cache",
        ),
        Metric(
            "memory_peak.{component}",
            "peak memory of {component}",
            Kind.SIZE,
            Value(f"{_COMPONENT}.memory_peak"),
            Source.SAMPLES,
            note="largest reading of the window; of a service the resident set sizes of its processes",
        ),
        *(
            Metric(
                f"{name}.{{component}}",
                title,
                Kind.RATE,
                Value(f"{_COMPONENT}.{name}"),
                Source.SAMPLES,
                unit=BYTES,
                note=note,
            )
            for name, title, note in _FLOWS
        ),
        *KERNEL_METRICS,
        Metric(
            "cpu_per_transaction.{component}",
            "CPU time of {component} per transaction",
            Kind.TIME,
            Value(f"{_COMPONENT}.cpu", per="traffic.throughput_per_s", factor=1e3),
            Source.SAMPLES,
            note=_PER_TRANSACTION,
        ),
        *(
            Metric(
                f"{name}_per_transaction.{{component}}",
                f"{title} per transaction",
                Kind.SIZE,
                Value(f"{_COMPONENT}.{name}", per="traffic.throughput_per_s"),
                Source.SAMPLES,
                note=_PER_TRANSACTION,
            )
            for name, title, _ in _FLOWS
        ),
        Metric(
            "counter.{service}.{counter}",
            "counter {counter} of {service}",
            Kind.RATE,
            Value(f"{_SERVICE}.window[{{counter}}]", per="traffic.window_s"),
            Source.COUNTERS,
            unit="/s",
            note="increase of the counter per second",
        ),
        Metric(
            "counter_total.{service}.{counter}",
            "total of counter {counter} of {service}",
            Kind.COUNT,
            Total(f"{_SERVICE}.window[{{counter}}]"),
            Source.COUNTERS,
            note="increase of the counter in the window",
        ),
        Metric(
            "counter_per_transaction.{service}.{counter}",
            "counter {counter} of {service} per transaction",
            Kind.INDEX,
            Value(f"{_SERVICE}.window[{{counter}}]", per="traffic.transactions"),
            Source.COUNTERS,
            note=_PER_TRANSACTION,
            rules=("avg",),
        ),
        Metric(
            "gauge.{service}.{gauge}",
            "gauge {gauge} of {service}",
            Kind.INDEX,
            Value(f"{_SERVICE}.window_gauges[{{gauge}}]"),
            Source.COUNTERS,
            note="mean of the readings in the window",
            rules=("avg",),
        ),
        *(
            Metric(
                f"{name}.{{service}}",
                f"{name.replace('_', ' ')} of {{service}}",
                Kind.SHARE,
                Value(f"{_SERVICE}.window_derived[{name}]"),
                Source.COUNTERS,
                note=note,
                rules=("rate", "avg"),
            )
            for name, note in (
                ("hit_ratio", "hits of a Squid / requests of clients, as it counts them"),
                ("byte_hit_ratio", "bytes that a Squid sent for hits / all that it sent to clients"),
                ("buffer_hit_ratio", "share of the blocks that PostgreSQL or MariaDB found in its buffers"),
            )
        ),
        Metric(
            "metric.{metric}",
            "metric {metric}",
            Kind.INDEX,
            Values("metrics[name={metric}]"),
            Source.NAMED,
            note="of a driver or client program, in its own unit, of the transactions that started in the window",
            statistics=("mean", "sd", "p50", "p90", "p95", "p99", "max", "min", "count"),
            rules=("avg", "p", "min", "max", "med"),
        ),
        Metric(
            "{ratio} = {of} / {to}",
            "ratio {ratio}",
            Kind.INDEX,
            Quotient(),
            Source.METRICS,
            note="the ratio of two metrics; in `responses:` written as `{name: RATIO, ratio: {of: OF, to: TO}}`",
            rules=("avg",),
        ),
    ),
    (PEAK, *PHASES, *PARTS),
    "response",
)
