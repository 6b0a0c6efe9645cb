"""What may be changed when results are analysed again."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.errors import BadInput
from plimsoll.plan.source.units import parse_duration


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a repeated analysis. `warmup_s`: the warm-up to discard instead of that of the file;
    `quantum_s`: of the time series; `exact`: quantiles from every transaction, else from histograms (0.1 %)."""

    warmup_s: float | None = None
    quantum_s: float | None = None
    exact: bool = True

    @classmethod
    def parse(cls, sets: list[str], quantum: str | None, *, exact: bool = True) -> Options:
        """From `--set run.warmup=20s` and `--quantum 10s`. Raises BadInput."""
        warmup = None
        for given in sets:
            path, _, value = given.partition("=")
            if path.strip() != "run.warmup":
                raise BadInput(f"--set {given}: only run.warmup can be changed after the measurement")
            warmup = _seconds(value, f"--set {given}")
        return cls(warmup, None if quantum is None else _seconds(quantum, f"--quantum {quantum}"), exact)


def _seconds(text: str, where: str) -> float:
    try:
        return parse_duration(text.strip()) / 1e9
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error
