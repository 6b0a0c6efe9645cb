"""Twenty real searches of a queue whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import Lab
from tests.stats.search_queues import Objective, QueueCase, truth

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

CASE = QueueCase(servers=4, rate=50, seconds=1, objectives=(Objective(0.9, 0.15),))
FILE = """
plimsoll: 1
name: twenty
services: {queue: {kind: delay, servers: 4, time: {exponential: 20ms}}}
workload: {driver: http, target: queue, timeout: 5s}
load: {in_flight: 400}
search:
  axis: load.rate
  from: 100/s
  to: 800/s
  goals: {fast: {response: "p(90)<150ms", width: 25%}}
  trial: {initial: 1s, final: 1s, sum: 3s}
  repeat: 20
  max_time: 15m
run: {drain: 5s}
design: {seed: 3}
validity: {trend: false}
"""
AT_LEAST = 16
"""Of 20 brackets that each contain the truth with a probability of 0.95, fewer do with a probability of 0.3 %."""


def test_twenty_real_searches_contain_the_truth(lab: Lab) -> None:
    """`delay` with Poisson arrivals and exponential times is M/M/4. The truth is that of trials of 1 s, which begin
    with an empty queue."""
    lab.limit_s = 1100
    done = lab.run("run", lab.file(FILE), "--json")
    assert done.code == 0, done.err
    at = truth(CASE, 0, np.random.default_rng(1), trials=1000)
    (cell,) = done.json["search"]["cells"]
    searches = cell["capacities"][0]["searches"]
    brackets = [
        (found["lower"] and found["lower"]["load"], found["upper"] and found["upper"]["load"])
        for found in searches
    ]
    assert len(brackets) == 20
    # On a slow machine, a side may be open when the time is used up: it contains everything beyond.
    assert all(low is not None or high is not None for low, high in brackets)
    holds = [(low is None or low <= at) and (high is None or at <= high) for low, high in brackets]
    assert sum(holds) >= AT_LEAST, (at, brackets)
