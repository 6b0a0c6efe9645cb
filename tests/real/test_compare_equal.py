"""Comparisons of equal systems: real runs of `delay` and of nginx, whose levels differ only in the name of a path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from plimsoll.assemble.compare import compare_levels
from plimsoll.compare.model import Sample, Verdict
from plimsoll.compare.verdicts import compare
from tests.conftest import Lab
from tests.real.test_services import needs, place  # noqa: F401

PAIRS = 10
"""Comparisons for each service: the levels of a factor without effect."""
MAX_FALSE = 3
"""At most 5 % of comparisons contain a false verdict. More than 3 of 10 then have a probability of 0.1 %."""
FILE = """
plimsoll: 1
name: equal
services: {{web: {service}}}
workload: {{driver: http, target: web, timeout: 5s, http: {{path: /a}}}}
load: {{testers: 2}}
factors: {{workload.http.path: [/a, /b], workload.timeout: [{timeouts}]}}
design: {{repetitions: 6, block: repetition, seed: 1}}
run: {{warmup: 100ms, duration: 500ms, drain: 5s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", ["{kind: delay, time: 2ms}", "{kind: nginx, root: ROOT}"])
def test_equal_systems_are_seldom_slower_or_faster(lab: Lab, place: Path, service: str) -> None:  # noqa: F811
    needs("nginx")
    site = place / "site"
    site.mkdir(mode=0o755)
    for name in ("a", "b"):
        (site / name).write_text("x" * 1000)
    timeouts = ", ".join(f"{5 + pair}s" for pair in range(PAIRS))
    text = FILE.format(service=service.replace("ROOT", str(site)), timeouts=timeouts)
    lab.limit_s = 500
    done = lab.run("run", lab.file(text), "--quiet")
    shutil.rmtree(site)
    assert done.code == 0, done.err
    by_pair: dict[str, list[Sample]] = {}
    for sample in compare_levels(lab.results(), "workload.http.path", 0.03).samples:
        by_pair.setdefault(sample.cell["workload.timeout"], []).append(sample)
    assert len(by_pair) == PAIRS
    wrong = []
    for samples in by_pair.values():
        found = compare(samples)  # each pair on its own, with its own correction
        assert {one.metric: one.pairs for one in found}["throughput"] == 6
        changed = [one for one in found if one.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        wrong += [changed] if changed else []
    assert len(wrong) <= MAX_FALSE, wrong
