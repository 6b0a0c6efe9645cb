"""Limits of services and of client programs in the file: values, levels, and what is refused."""

from __future__ import annotations

import pytest
from tests.unit.plan.helpers import BASE, load, problems

from plimsoll.deploy.limits import limited_resources, proof_of
from plimsoll.deploy.process import end_text
from plimsoll.plan.model.limits import Limits


def with_limits(limits: str, more: str = "") -> str:
    return BASE.replace("{kind: echo}", f"{{kind: echo, limits: {limits}{more}}}")


def test_limits_are_bytes_cores_and_bytes_per_second() -> None:
    text = with_limits("{memory: 512MB, cpu: 150%, disk_read: 20MB/s, disk_write: 64KiB/s}")
    cell = load(text).cells[0]
    assert cell.config.service("web").limits == Limits(512_000_000, 1.5, 20_000_000, 65_536)
    assert cell.stored["services"]["web"]["limits"] == {
        "memory": "512MB",
        "cpu": "150%",
        "disk_read": "20MB/s",
        "disk_write": "64KiB/s",
    }
    assert load(BASE).cells[0].config.service("web").limits.to_json() == {}


def test_levels_set_limits_also_where_the_file_has_none() -> None:
    text = BASE + "factors: {services.web.limits.cpu: [50%, 100%, none]}\n"
    experiment = load(text)
    assert [cell.config.service("web").limits.cpu for cell in experiment.cells] == [0.5, 1.0, None]
    assert limited_resources([cell.config for cell in experiment.cells], None) == ("cpu",)


def test_client_programs_have_limits() -> None:
    driver = "driver: exec\n  exec: {command: [true], limits: {memory: 64MB, cpu: 50%}}"
    text = BASE.replace("driver: http\n  target: web", driver)
    config = load(text).cells[0].config
    assert config.workloads[0].settings["limits"] == {"memory": 64_000_000, "cpu": 0.5}
    assert limited_resources([config], None) == ("cpu", "memory")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("{memory: 1MB}", 'memory: "1MB": a program does not start with less than 4MB of memory'),
        ("{memory: 512}", "memory: 512 has no unit"),
        ("{cpu: 0%}", 'cpu: "0%": the limit must be from 1% to 100000%, in percent of one core'),
        ("{cpu: 0.5}", "cpu: 0.5"),
        ("{disk_read: 20MB}", 'disk_read: "20MB" is not a rate of bytes'),
        ("{disk_write: 1kB/s}", 'disk_write: "1kB/s": the limit of a disk must be at least 10kB/s'),
        ("{swap: 1GB}", "limits.swap: unknown key"),
    ],
)
def test_invalid_limits_are_refused_with_the_line(limits: str, message: str) -> None:
    (line,) = problems(with_limits(limits))
    assert line.startswith("x.yaml:4: services.web.limits")
    assert message in line


def test_limits_without_effect_are_refused() -> None:
    (line,) = problems(with_limits("{cpu: 150%}", ", cpus: [0]"))
    assert "a limit of 150% has no effect on a service that is bound to 1 core" in line
    load(with_limits("{cpu: 100%}", ", cpus: [0]"))
    file = BASE.replace("{kind: echo}", "{kind: sqlite, limits: {memory: 64MB}}")
    assert any("a file has no processes that could be limited" in line for line in problems(file))


def test_a_self_test_that_fails_is_a_reason() -> None:
    assert proof_of(None, "", ["cpu"]).text() == "cpu cannot be limited: the self-test took too long"
    assert "the self-test failed (no such file)" in proof_of(1, "no such file\n", ["cpu"]).text()
    assert proof_of(0, '{"proofs": 3}', ["memory"]).reasons.keys() == {"memory"}
    good = '{"proofs": [{"resource": "cpu", "reason": "", "remark": "only this"}]}'
    assert (proof_of(0, good, ["cpu"]).text(), proof_of(0, good, ["cpu"]).remarks) == ("", ("only this",))


def test_an_end_at_the_limit_of_memory_is_stated() -> None:
    line = b"plimsoll: out of memory: the kernel killed 2 processes at the memory limit of 96000000 bytes\n"
    assert end_text(137, b"started\n" + line) == (
        "ran out of memory: the kernel killed it at its memory limit of 96 MB (`limits`)"
    )
    assert "exit status 1 after the kernel killed one of its processes" in end_text(1, line)
    assert end_text(137, b"out of memory\n") == "was killed by signal 9"
