"""`limits` of services, of testers and of client programs: memory, processor time and disk bandwidth, which a control
group of their host enforces."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, WithJsonSchema
from pydantic.functional_validators import PlainValidator

from plimsoll.plan.model.limits import Limits
from plimsoll.plan.source import units
from plimsoll.plan.source.fields import Raw

UNLIMITED: Final = "none"
MIN_MEMORY: Final = 4 * 10**6
"""A program with less memory does not start."""
MIN_CORES: Final = 0.01
"""The kernel grants at least 1 ms of a period of 100 ms."""
MAX_CORES: Final = 1000.0
MIN_BYTES_S: Final = 10**4


def _or_none(parse: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None or value == UNLIMITED else parse(value)


def _limit(parse: Callable[[object], Any], show: Callable[[Any], str], pattern: str, example: str) -> Any:
    unit = pattern.removeprefix("^").removesuffix("$")
    return (
        PlainValidator(_or_none(parse)),
        PlainSerializer(lambda value: UNLIMITED if value is None else show(value), return_type=str),
        WithJsonSchema(
            {"type": "string", "pattern": rf"^\s*{UNLIMITED}\s*$|^{unit}$", "examples": [example, UNLIMITED]}
        ),
    )


def _memory(value: object) -> int:
    size = units.parse_size(value)
    if size < MIN_MEMORY:
        raise units.UnitError(f"{_quoted(value)}: a program does not start with less than 4MB of memory")
    return size


def _cores(value: object) -> float:
    cores = units.parse_percentage(value)
    if not MIN_CORES <= cores <= MAX_CORES:
        raise units.UnitError(
            f"{_quoted(value)}: the limit must be from 1% to 100000%, in percent of one core: 200% is two cores"
        )
    return cores


def _bandwidth(value: object) -> int:
    rate = units.parse_byte_rate(value)
    if rate < MIN_BYTES_S:
        raise units.UnitError(f"{_quoted(value)}: the limit of a disk must be at least 10kB/s")
    return round(rate)


def _quoted(value: object) -> str:
    return '"' + re.sub(r"\s+", " ", str(value)) + '"'


_Memory = Annotated[int | None, *_limit(_memory, units.show_size, units.SIZE_PATTERN, "512MB")]
_Cores = Annotated[float | None, *_limit(_cores, units.show_fraction, units.FRACTION_PATTERN, "50%")]
_Bandwidth = Annotated[
    int | None, *_limit(_bandwidth, units.show_byte_rate, units.BYTE_RATE_PATTERN, "20MB/s")
]


class LimitsRaw(Raw):
    """Limits of a program with all its processes. `none`: not limited. `cpu`: in percent of one core."""

    memory: _Memory = None
    cpu: _Cores = None
    disk_read: _Bandwidth = None
    disk_write: _Bandwidth = None

    def resolve(self) -> Limits:
        """The limits of the model."""
        return Limits(self.memory, self.cpu, self.disk_read, self.disk_write)

    def over(self, base: Limits) -> Limits:
        """`base` with the limits that are given here; `none` removes one."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return replace(base, **given)


def too_high(limits: Limits, cores: int | None) -> str:
    """Why the limit of `cpu` has no effect on a program that is bound to this number of cores (None: not bound); empty
    if it has one."""
    if limits.cpu is None or not cores or limits.cpu <= cores:
        return ""
    return (
        f"a limit of {units.show_fraction(limits.cpu)} has no effect on a service that is bound to {cores} "
        f"{'core' if cores == 1 else 'cores'}: expected at most {100 * cores}%, or no `cpus`"
    )
