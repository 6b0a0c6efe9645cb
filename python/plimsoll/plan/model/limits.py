"""The resolved model of `limits`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use with all its processes; None: not limited. `memory`: bytes; `cpu`: cores (0.5: half of one
    core); `disk_read`, `disk_write`: bytes per second of each disk."""

    memory: int | None = None
    cpu: float | None = None
    disk_read: int | None = None
    disk_write: int | None = None

    def to_json(self) -> dict[str, float]:
        """The limits that are set, by name, as the engine reads them."""
        names = ("memory", "cpu", "disk_read", "disk_write")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


NO_LIMITS: Final = Limits()
