"""The experiment file that `plimsoll init` writes. It runs without changes; its comments list the alternatives."""

from __future__ import annotations

from typing import Final

TEMPLATE: Final = """\
# An experiment for Plimsoll. It runs without changes, against a small server that is part of Plimsoll:
#
#   plimsoll plan {file}     shows the runs, their order, and the estimated time and disk space
#   plimsoll run {file}
#
# Every key is explained in docs/experiment-file.md; `plimsoll schema` writes a JSON Schema for editors.
# Durations, sizes, rates and percentages have units: 30s, 10kB, 500/s, 10%.

plimsoll: 1                       # version of this format
name: {name}
question: How many requests per second does the server answer, and how long do they take?

# ---- system under test ---------------------------------------------------------------------------------------------

services:                         # started for the experiment, in this order, and stopped after it
  web: {{kind: echo, body: 1kB}}    # also: frontier, sqlite, delay, null, and command for any server binary

# targets:                        # or an existing system
#   site: {{endpoints: ["http://server.example:8080"]}}

# ---- requests ------------------------------------------------------------------------------------------------------

workload:
  driver: http                    # also: frontier, sql, ldap, catalogue, broker, ftp, tcp, exec, replay, null
  target: web                     # a service, one of targets, or a URL
  timeout: 10s
  # on_error: continue            # default: continue, pause after a failed connection; or backoff, stop-tester
  http:
    method: GET
    path: /
    # headers: {{Authorization: {{secret: "Bearer ${{env:TOKEN}}"}}}}     # a secret is never stored or shown
    # expect: {{status: 200}}       # any other answer counts as wrong

# ---- load ----------------------------------------------------------------------------------------------------------

load: {{testers: 1, think: 0s}}     # closed: each tester sends its next request after the answer
# load: {{rate: 100/s, arrivals: poisson, in_flight: 200, when_full: wait}}       # open: independent of the server
# load: {{ramp: {{testers: 20, every: 5s, life: 10m}}}}
# load: {{stages: [{{for: 30s, testers: 10}}, {{for: 1m, rate: 50/s..500/s}}]}}

# ---- factors -------------------------------------------------------------------------------------------------------

factors:
  testers: {{path: load.testers, levels: [1, 2, 4]}}
  connection:                     # named levels, each sets one or more paths
    kept:  {{workload.http.connection: kept}}
    new:   {{workload.http.connection: per-request}}

design:
  kind: full-factorial            # also: one-at-a-time, 2^k, or table: design.csv
  repetitions: 2                  # one repetition has no interval. Also: {{until: {{throughput: 5%}}}}
  block: repetition               # all cells once, then all cells again: a slow hour touches all of them alike
  order: random
  # seed: 1                       # random by default, and recorded
  # exclude: [{{testers: 4, connection: new}}]

run: {{warmup: 1s, duration: 3s}}

# ---- evaluation ----------------------------------------------------------------------------------------------------

responses: [{{metric: throughput, scale: log}}]
capacity: {{response: "p(95)<100ms", errors: "rate<1%"}}
thresholds:                       # if one fails, the exit code is 99
  - {{metric: errors, test: "rate<1%"}}
"""


def template(name: str, file: str) -> str:
    """The text of a new experiment file. `name`: of the experiment; `file`: its path in the comments."""
    return TEMPLATE.format(name=name, file=file)
