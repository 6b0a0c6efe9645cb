"""Options of a repeated analysis."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.errors import BadInput
from plimsoll.plan.source.units import parse_duration


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a repeated analysis. `warmup_s`: replaces the warm-up of the experiment; `quantum_s`: interval of the
    time series, and of figures that are computed from them; `exact`: compute quantiles from every transaction, not from
    histograms (error at most 0.1 %); `chart_quantum_s`: bin width of time charts, which changes no other figure."""

    warmup_s: float | None = None
    quantum_s: float | None = None
    exact: bool = True
    chart_quantum_s: float | None = None

    @classmethod
    def parse(cls, sets: list[str], quantum: str | None, *, exact: bool = True) -> Options:
        """Parses the values of `--set` (such as `run.warmup=20s`) and `--quantum` (such as `10s`). Raises BadInput."""
        warmup = None
        for setting in sets:
            path, _, value = setting.partition("=")
            if path.strip() != "run.warmup":
                raise BadInput(f"--set {setting}: only run.warmup can be changed after the measurement")
            warmup = _seconds(value, f"--set {setting}")
        return cls(warmup, None if quantum is None else _seconds(quantum, f"--quantum {quantum}"), exact)


def _seconds(text: str, where: str) -> float:
    try:
        return parse_duration(text.strip()) / 1e9
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error
