"""`actions:` of an experiment file: what is accepted, what is refused and why, and paths into it."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.drive.run.actions.table import ACTIONS
from plimsoll.plan.actions.table import ACTION_KINDS

FILE = """\
plimsoll: 1
name: small
services:
  web: {kind: echo}
  file: {kind: sqlite}
workload: {driver: http, target: web}
load: {testers: 1}
run: {warmup: 5s, duration: 15s}
actions:
  - {at: 10s, kill: {service: web}}
  - {at: 12s, restart: {service: web}}
  - {at: 15s, pause: {service: web}, for: 2s}
  - {at: 2s, run: [sync], timeout: 5s}
"""


def changed(old: str, new: str) -> list[str]:
    assert old in FILE
    return problems(FILE.replace(old, new))


def test_every_kind_is_carried_out() -> None:
    assert set(ACTION_KINDS) == set(ACTIONS)


def test_actions_are_sorted_and_have_labels() -> None:
    (cell,) = load(FILE).cells
    actions = cell.config.actions
    assert [(action.at_ns / 1e9, action.label, action.service) for action in actions] == [
        (2, "sync", ""),
        (10, "kill web", "web"),
        (12, "restart web", "web"),
        (15, "pause web", "web"),
    ]
    assert actions[3].for_ns == 2e9
    assert actions[0].hook is not None and actions[0].hook.timeout_ns == 5e9
    assert cell.stored["actions"][2] == {"pause": {"service": "web"}, "at": "15s", "for": "2s"}


def test_a_secret_is_not_part_of_a_label() -> None:
    text = FILE.replace("run: [sync]", 'run: [login, {secret: "${env:KEY}"}]')
    (cell,) = load(text, environ={"KEY": "verysecret"}).cells
    assert cell.config.actions[0].label == "login ***"


def test_levels_set_values_and_the_whole_list() -> None:
    factors = "factors:\n  actions.0.at: [8s, 9s]\n"
    assert [cell.config.actions[1].at_ns for cell in load(FILE + factors).cells] == [8 * 10**9, 9 * 10**9]
    factors = "factors:\n  state: {calm: {actions: []}, busy: {run.warmup: 5s}}\n"
    assert [len(cell.config.actions) for cell in load(FILE + factors).cells] == [0, 4]


ALONE = "expected one of kill, restart, pause, link, cut, run"
REFUSED = [
    (
        "kill: {service: web}",
        "kill: {service: wbe}",
        '10: actions.0.kill.service: there is no service wbe; did you mean "web"?',
    ),
    (
        "kill: {service: web}",
        "kill: {service: file}",
        "10: actions.0.kill.service: file (kind sqlite) is a file without a process: nothing to kill",
    ),
    ("at: 12s", "at: 20s", "11: actions.1.at: the run ends at 20s (warm-up included), so there is no 20s"),
    ("for: 2s", "for: 6s", "12: actions.2.for: the action would end at 21s, but the run ends at 20s"),
    (
        "at: 12s",
        "at: 10s",
        "11: actions.1.at: kill web is also due at 10s: their order would be a matter of chance",
    ),
    (
        "at: 12s, restart",
        "at: 12s, kill",
        "11: actions.1.at: web does not run then: it is killed at 10s, and not restarted before",
    ),
    (
        "at: 15s, pause",
        "at: 11s, pause",
        "11: actions.1.at: web is paused from 11s to 13s: choose a time outside",
    ),
    ("restart:", "restrat:", f'11: actions.1: the action is missing: {ALONE}; did you mean "restart"?'),
    (
        "{at: 12s, restart: {service: web}}",
        "{at: 12s, restart: {service: web}, kill: {service: web}}",
        "11: actions.1: an entry has one action, got restart and kill: write an entry for each",
    ),
    (
        "{at: 2s, run: [sync], timeout: 5s}",
        "soon",
        '13: actions.3: expected an action such as {at: 30s, kill: {service: db}}, got "soon"',
    ),
    (", for: 2s", "", "12: actions.2.for: required key missing"),
    ("timeout: 5s", "timeuot: 5s", '13: actions.3.timeuot: unknown key; did you mean "timeout"?'),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_an_action_that_cannot_be_carried_out_is_refused(old: str, new: str, message: str) -> None:
    assert f"x.yaml:{message}" in [line.strip() for line in changed(old, new)]


def test_a_restart_of_a_running_service_is_accepted() -> None:
    assert load(FILE.replace("  - {at: 10s, kill: {service: web}}\n", "")).cells


def test_commands_are_refused_on_hosts_where_they_cannot_be_started() -> None:
    text = (
        FILE.replace("timeout: 5s", "on: hosts") + "hosts: {kind: slurm, controller: {address: 10.0.0.1}}\n"
    )
    assert any(
        "actions.3.on: Plimsoll cannot start a command on hosts of kind slurm" in line
        for line in problems(text)
    )
