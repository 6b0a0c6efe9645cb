"""Whether a run measured the target or the load generator: the rules of the experiment file's `validity:`.

A run is *invalid* when its numbers say nothing about the target, and *doubtful* when they do, with a reservation. Each
verdict comes with its evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.steady import Trend
from plimsoll.analyse.wording import count, listing, percent, plural, quantity
from plimsoll.plan.model import Validity


@dataclass(frozen=True, slots=True)
class Loss:
    """Agents that were lost in a run that went on without them. `agents`: each with when, in words; `of`: so many there
    were; `on_disk`: of the transactions that are known to have been started, the part that is on disk (None: not
    known)."""

    agents: tuple[str, ...]
    of: int
    on_disk: float | None


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run showed. `busiest_thread` 0..1 (None: not watched); `planned`, `started`: starts in the window, without
    those dropped or skipped on request (None: a closed load plans none). Times in seconds.
    `steal`: share of the processor time of the host that the hypervisor gave to others (None: not watched)."""

    succeeded: int
    busiest_thread: float | None
    planned: float | None
    started: float | None
    lateness_p99: float | None
    response_p50: float | None
    trend: Trend | None
    steal: float | None = None
    balanced: bool = True
    lost_records: int = 0
    unknown_clocks: tuple[str, ...] = ()
    loss: Loss | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Empty tuples: nothing to object to. `evidence` has the numbers by the keys of `validity:`."""

    invalid: tuple[str, ...]
    doubtful: tuple[str, ...]
    evidence: dict[str, float | None]

    @property
    def valid(self) -> bool:
        """No reason against the run."""
        return not self.invalid


def judge_run(seen: Observed, limits: Validity) -> Judgement:
    """Applies the rules."""
    invalid: list[str] = []
    if limits.success and seen.succeeded == 0:
        invalid.append("nothing succeeded in the measured window")
    if seen.busiest_thread is not None and seen.busiest_thread > limits.tester_cpu:
        invalid.append(
            f"the load generator was the limit: an agent's busiest thread used {100 * seen.busiest_thread:.1f} % of a "
            f"core (tester_cpu: {100 * limits.tester_cpu:g} %)"
        )
    share = _started_share(seen)
    if share is not None and share < limits.started:
        invalid.append(
            f"only {100 * share:.2f} % of the planned transactions were started (started: {100 * limits.started:g} %)"
        )
    ratio = _lateness_share(seen)
    if (
        ratio is not None
        and seen.lateness_p99 is not None
        and ratio > limits.lateness_share
        and seen.lateness_p99 * 1e9 > limits.lateness_floor_ns
    ):
        invalid.append(
            f"testers started late: p99 of lateness {quantity(1e3 * seen.lateness_p99, 'ms')} is {percent(ratio)} of "
            f"the median response time (lateness_share: {100 * limits.lateness_share:g} %, lateness_floor: "
            f"{limits.lateness_floor_ns / 1e6:g} ms)"
        )
    invalid += _damage(seen, limits)
    return Judgement(tuple(invalid), _doubts(seen, limits), _evidence(seen, share, ratio))


def _damage(seen: Observed, limits: Validity) -> list[str]:
    """What of the transactions is not on record. Nobody knows the last ones of an agent that was lost, so a run without
    it is judged by how much of what was started is on record, as a run is by how much of its plan was started."""
    loss = seen.loss
    if seen.lost_records or not seen.balanced:
        return [f"the record is damaged: {seen.lost_records} transactions lost, or the books do not balance"]
    if loss is None or loss.on_disk is None or loss.on_disk >= limits.started:
        return []
    return [
        f"{_lost(loss)}, and only {percent(loss.on_disk)} of the transactions that are known to have been started "
        f"are on record (started: {100 * limits.started:g} %): `plimsoll collect` brings in what is still there"
    ]


def _lost(loss: Loss) -> str:
    said = listing(loss.agents[:5])
    more = f" and {count(len(loss.agents) - 5)} more" if len(loss.agents) > 5 else ""
    return f"{count(len(loss.agents))} of {plural(loss.of, 'agent')} lost: {said}{more}"


def _started_share(seen: Observed) -> float | None:
    if seen.planned is None or seen.started is None or seen.planned <= 0:
        return None
    return seen.started / seen.planned


def _lateness_share(seen: Observed) -> float | None:
    if seen.lateness_p99 is None or seen.response_p50 is None or seen.response_p50 <= 0:
        return None
    return seen.lateness_p99 / seen.response_p50


def _doubts(seen: Observed, limits: Validity) -> tuple[str, ...]:
    found = []
    if limits.trend and seen.trend is not None and seen.trend.verdict == "trends":
        found.append(f"still trends after the warm-up: {seen.trend.text}")
    if seen.steal is not None and seen.steal > limits.steal:
        found.append(
            f"the hypervisor gave {100 * seen.steal:.0f} % of this host's processor time to others "
            f"(steal: {100 * limits.steal:g} %)"
        )
    if seen.loss is not None and not _damage(seen, limits):
        found.append(f"{_lost(seen.loss)}; from then on the load was less than planned")
    if seen.unknown_clocks:
        found.append(
            f"nothing is known of the clock of {listing(seen.unknown_clocks[:5])}: where its times stand against "
            "those of others is not known"
        )
    return tuple(found)


def _evidence(seen: Observed, share: float | None, ratio: float | None) -> dict[str, float | None]:
    return {
        "succeeded": float(seen.succeeded),
        "tester_cpu": seen.busiest_thread,
        "started": share,
        "lateness_share": ratio,
        "lateness_p99_s": seen.lateness_p99,
        "response_p50_s": seen.response_p50,
        "trend_change": seen.trend.change if seen.trend else None,
        "steal": seen.steal,
        "trend_p": seen.trend.p_value if seen.trend else None,
        **({"recorded": seen.loss.on_disk} if seen.loss is not None else {}),
    }
