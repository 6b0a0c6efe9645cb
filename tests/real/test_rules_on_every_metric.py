"""Rules on resources, parts of the peak window, values of a program and round trips, with real processes."""

from __future__ import annotations

from plimsoll.analyse.results.verdicts import CapacityKind
from plimsoll.api import analysis
from tests.conftest import Lab

EXPERIMENT = """\
plimsoll: 1
name: rules
services: {web: {kind: delay, servers: 2, time: {fixed: 2ms}}}
workloads:
  readers:
    driver: http
    target: web
    http: {}
    mix: [{name: page, weight: 3, path: /page}, {name: search, path: /search}]
    load: {testers: 1}
  jobs:
    driver: exec
    exec: {command: ["true"]}
    load: {testers: 1, think: 20ms}
factors: {testers: {path: workloads.readers.load.testers, levels: [1, 2]}}
run: {warmup: 100ms, duration: 1300ms}      # at least one sample of the CPU
validity: {tester_cpu: 100%, started: 0%, lateness_share: 100%, lateness_floor: 100s, gaps: 100%, steal: 100%}
capacity:
  usable:
    - {metric: utilization.web, test: "avg<100%"}
    - {metric: response, test: "p(50)<1h", over: peak, where: {operation: search}}
thresholds:
  - {metric: response, test: "p(50)<1h", over: peak, where: {operation: [page, search]}}
  - {metric: errors, test: "rate<100%", over: peak, where: {workload: readers}}
  - {metric: metric.cpu_s, test: "p(50)<1000"}
  - {metric: response_less_rtt, test: "med<1h", where: {workload: readers}}
"""


def test_rules_on_every_kind_of_metric(lab: Lab) -> None:
    done = lab.run("run", lab.file(EXPERIMENT))
    assert done.code == 0, done.err
    found = analysis(lab.results())
    assert len(found.verdicts) == 10 and all(verdict.passed for verdict in found.verdicts)
    times = [verdict for verdict in found.verdicts if verdict.metric == "response@peak"]
    assert len(times) == 4 and all((verdict.observed or 0) >= 0.002 for verdict in times), "the delay is 2 ms"
    for run in found.runs:
        readers = next(part.traffic for part in run.workloads if part.workload == "readers")
        less = readers.response_less_rtt_ms
        assert less is not None and less.count == readers.response_ms.count
        assert less.mean is not None and readers.response_ms.mean is not None
        assert 1.9 < less.mean < readers.response_ms.mean
        assert any("jobs" in part.workload for part in run.workloads)
        assert any("no round trip was measured" in note for note in run.notes), "programs have none"
    (line,) = found.saturation
    (usable,) = [capacity for capacity in line.capacities if capacity.kind == CapacityKind.USABLE]
    assert usable.value is not None and usable.definition.endswith(
        "utilization.web avg<100% and response p(50)<1h (operation search) in the peak window"
    )
