"""The network of the testers' hosts before and after the runs, from `baseline.json`. Results without
`hosts: {baseline: true}`, and old results, have no such file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, ValidationError

from plimsoll.collect.files import read_json
from plimsoll.errors import DamagedResults
from plimsoll.plan.sections.baseline import PathFigures

FILE: Final = "baseline.json"


class _Path(BaseModel):
    to: str
    is_target: bool = True
    rtt_min_ns: NonNegativeFloat | None = None
    rtt_median_ns: NonNegativeFloat | None = None
    send_bytes_s: NonNegativeFloat | None = None
    receive_bytes_s: NonNegativeFloat | None = None
    error: str = ""
    tries: int = 1


class MeasuredHost(BaseModel):
    """The paths of a host. `error`: why there are none; empty if its agent was available."""

    model_config = ConfigDict(frozen=True)
    host: str
    agent: str
    site: str = ""
    error: str = ""
    paths: tuple[_Path, ...] = ()

    @property
    def figures(self) -> dict[str, PathFigures]:
        """The paths by their other end."""
        return {path.to: PathFigures(**path.model_dump()) for path in self.paths}


class Measurement(BaseModel):
    """All hosts at one time. `when`: before the first run, or after the last one."""

    model_config = ConfigDict(frozen=True)
    when: str
    at: str = ""
    hosts: tuple[MeasuredHost, ...] = ()


class _Baseline(BaseModel):
    measurements: tuple[Measurement, ...]


def read_baseline(directory: Path) -> tuple[Measurement, ...]:
    """The measurements of a results directory, in order of time; empty if there are none. Raises DamagedResults."""
    path = directory / FILE
    if not path.exists():
        return ()
    try:
        return _Baseline.model_validate(read_json(path, "plimsoll.baseline")).measurements
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DamagedResults(f"{path}: {where}: {first['msg']}") from error
