"""The rules that make verdicts: each with a name, a version and its statement. docs/methods.md has the reasons.

A change of a rule that can change a verdict raises its version. analysis.json contains name and version of the rule of
each verdict, so that a later analysis can list the verdicts that a newer rule supersedes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from plimsoll.analyse.results.verdicts import ModelReason, RuleId, RunReason, VerdictRule


class RuleName(StrEnum):
    """Names of the rules, as they are stored in analysis.json."""

    FINISHED = "validity.finished"
    SUCCESS = "validity.success"
    TESTER_CPU = "validity.tester_cpu"
    STARTED = "validity.started"
    LATENESS = "validity.lateness"
    RECORD = "validity.record"
    LOST_RECORDS = "validity.lost_records"
    GAPS = "validity.gaps"
    TREND = "validity.trend"
    STEAL = "validity.steal"
    LOST_AGENTS = "validity.lost_agents"
    CLOCKS = "validity.clocks"
    REQUESTS = "validity.requests"
    VALIDITY = "validity"
    BOTTLENECK = "bottleneck"
    COMMON_BOTTLENECK = "bottleneck.common"
    OVERLOAD = "overload"
    CHANGES = "changes"
    SATURATION = "saturation"
    NOMINAL = "capacity.nominal"
    USABLE = "capacity.usable"
    ERROR_LIMITED = "capacity.error-limited"
    SUFFICIENT = "capacity.sufficient"
    RANKING = "capacity.ranking"
    THRESHOLD = "threshold"
    RAMP = "ramp"
    OUTAGE = "actions.outage"
    RECOVERY = "actions.recovery"
    CHEAPEST = "consistency.cheapest"
    SITES = "fairness.sites"
    POOL = "hosts.pool"
    VARIANCES = "model.variances"
    DRIFT = "model.drift"
    SCALE = "model.scale"
    OUTLIERS = "model.outliers"
    REGRESSION = "model.regression"
    MEMORY_GROWTH = "memory.growth"
    UNTIL_TIGHT = "repetitions.until"
    SEARCH = "capacity.search"
    CONDITIONS = "conditions"
    SESSIONS = "sessions.waits"
    COMPARE = "compare"


def combined_version(checks: Iterable[VerdictRule]) -> int:
    """The version of a rule that consists of others: it increases with the version of each of them."""
    return 1 + sum(check.version - 1 for check in checks)


_CHECKS: Final = (
    VerdictRule(
        RuleName.FINISHED,
        2,
        "A run that did not finish as planned is invalid; the only run of an experiment that was interrupted is "
        "doubtful.",
    ),
    VerdictRule(
        RuleName.SUCCESS,
        2,
        "A run in whose window no transaction ended, with success or as an error, is invalid.",
    ),
    VerdictRule(
        RuleName.TESTER_CPU,
        4,
        "A run in which a thread of an agent used, or waited for, more of a core than `tester_cpu` is invalid, and "
        "doubtful above 90 %, without the time for which a CPU limit of the experiment stopped it.",
    ),
    VerdictRule(
        RuleName.STARTED,
        2,
        "A run that started a smaller part of its planned transactions than `started` is invalid if an agent was lost, "
        "or `tester_cpu`, `lateness` or `gaps` shows that the load generator was slow.",
    ),
    VerdictRule(
        RuleName.LATENESS,
        3,
        "A run is invalid if at a reported percentile, up to p99, the load generator's own lateness is above "
        "`lateness_share` of the response time and above `lateness_floor`; it is doubtful if so above p99; "
        "it is not judged by this if a CPU limit of the experiment stopped testers for more of the window than `gaps`.",
    ),
    VerdictRule(
        RuleName.GAPS,
        2,
        "A run is invalid if a thread of the load generator stood still for more of the window than `gaps`, and "
        "doubtful if for at most 50 ms, without the time for which a CPU limit of the experiment stopped it.",
    ),
    VerdictRule(
        RuleName.RECORD, 1, "A run is invalid if records of it were lost, or if its counts do not balance."
    ),
    VerdictRule(
        RuleName.LOST_RECORDS,
        2,
        "A run that lost agents is invalid if a smaller part than `started` of the transactions that are known to have "
        "been started is on record, or of the planned time of all testers in the window is known.",
    ),
    VerdictRule(
        RuleName.TREND,
        2,
        "A run is doubtful if its throughput, or else its response time, changes by at least 5 % of its mean over the "
        "window, with p < 0.001.",
    ),
    VerdictRule(
        RuleName.STEAL,
        1,
        "A run is doubtful if the hypervisor gave more of the processor time to others than `steal`.",
    ),
    VerdictRule(RuleName.LOST_AGENTS, 1, "A run that went on without an agent that was lost is doubtful."),
    VerdictRule(RuleName.CLOCKS, 1, "A run with an agent of whose clock nothing is known is doubtful."),
    VerdictRule(
        RuleName.REQUESTS,
        2,  # not 1: the rule was added later, which has to change the version of `validity`
        "A run is doubtful if a service that Plimsoll started counted more or fewer requests than the testers, or the "
        "service before it, sent, by more than `requests` and by more than 5 requests, beyond those that may "
        "not have arrived; if what is between the two does not count, only if by at most half.",
    ),
)

RULES: Final = (
    *_CHECKS,
    VerdictRule(
        RuleName.VALIDITY,
        combined_version(_CHECKS),
        "A run is invalid if one of the rules `validity.*` says so, else doubtful if one says so, else valid.",
        rests_on=tuple(check.name for check in _CHECKS),
    ),
    VerdictRule(
        RuleName.BOTTLENECK,
        6,
        "The bottleneck of a run is the load generator if that was at 98 % or above and has no limit, else the memory "
        "of a service with a limit if the kernel killed a process of it there, or if some of its tasks waited for "
        "memory for at least 10 % of the time (lower end of the interval: 2 %), or the memory of a host with less than "
        "10 % available, by the same wait; else the component of highest utilization if that is at 90 % or above and "
        "its interval lies above that of the second, where a limit of CPU or disks counts as a resource, and a link of "
        "a testbed with a rate, or the process that emulates its links, as a component.",
    ),
    VerdictRule(
        RuleName.COMMON_BOTTLENECK,
        2,
        "The bottleneck of a cell is that of more than half of its valid runs, unless it is a host that is also that "
        "of a cell of the same combination with less than half of the throughput; that of a combination, of the runs "
        "where its throughput is highest.",
        rests_on=(RuleName.BOTTLENECK, RuleName.VALIDITY),
    ),
    VerdictRule(
        RuleName.OVERLOAD,
        1,
        "The target is overloaded by an open load if completions in the second half of the window, failed ones "
        "included, are below planned starts by more than 1 % and by more than the 95 % interval of the difference.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.CHANGES,
        1,
        "Throughput, response time or the CPU of a component of the target changed during a run whose load does not "
        "change by plan if its one-second values, at least 30, have a change point at a level of 1 % for all series "
        "of the run together, and the means on both sides differ by at least 10 % and, for CPU, by 0.05 cores.",
    ),
    VerdictRule(
        RuleName.SATURATION,
        4,
        "Throughput increases beyond a load, or falls from it on, where another load is shown to have more; it is flat "
        "from a load on if its elasticity with respect to the load is shown to be below 0.2 from there on; "
        "of an open load it is flat from the load on from which most runs of each level are overloaded; where neither "
        "decides, it is flat from the load on from which the bottleneck is at least 97 % busy in each run, if it is "
        "less than 90 % busy at a lower load and no increase is seen beyond.",
        rests_on=(RuleName.VALIDITY, RuleName.OVERLOAD, RuleName.COMMON_BOTTLENECK),
    ),
    VerdictRule(
        RuleName.NOMINAL,
        2,
        "The nominal capacity is the mean throughput of the load levels that are not shown to have less than the "
        "highest one, if it is shown to be flat there and the highest one to have less than 5 % over this mean; else "
        "the highest mean throughput of all load levels.",
        rests_on=(RuleName.SATURATION,),
    ),
    VerdictRule(
        RuleName.USABLE,
        1,
        "The usable capacity is the highest mean throughput at a load where every one of its rules holds.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.ERROR_LIMITED,
        2,
        "The error-limited capacity is the throughput at the highest load at which the one-sided upper 95 % bound of "
        "the error rate holds the rule on errors, below the lowest load at which the lower bound breaks it.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.RANKING,
        3,
        "A combination has the highest capacity if the intervals of the ratios of its nominal capacity to all others, "
        "within blocks and with Bonferroni's correction, lie above 1.",
        rests_on=(RuleName.NOMINAL,),
    ),
    VerdictRule(
        RuleName.THRESHOLD,
        1,
        "A threshold passes on a cell if its test holds for the value over all valid runs; no sample fails.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.RAMP,
        1,
        "Under a rising load, a rule fails from a bin on if it fails in that bin and in all later ones that can be "
        "judged, at least two in all.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.OUTAGE,
        1,
        "A time without success is an outage if it is longer than 0.1 s, than twice the longest gap before the first "
        "action, and than a gap that the rate before makes unlikely (0.001 per run).",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.RECOVERY,
        1,
        "A service has recovered from the time on from which no window shows a throughput below 95 % of that before, "
        "or a mean response time above 105 %, beyond the variation before (1 % error over all windows).",
        rests_on=(RuleName.OUTAGE,),
    ),
    VerdictRule(
        RuleName.CHEAPEST,
        1,
        "Of the levels without stale answers (else of those with the lowest share) the cheapest has the most reads, "
        "and of several whose intervals reach these the fewest fetches per answer.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.SITES,
        2,
        "A service treats its nearest and farthest site alike, of the sites with the same workloads, if their median "
        "response times less one round trip differ by at most a tenth of the shorter one, or of the difference of the "
        "round trips.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.POOL,
        1,
        "The pool of testers' hosts changed if, after the last run, a path of a host had lost more than 20 % of its "
        "throughput in one direction, or its round trip had risen by more than 20 % and more than 1 ms, in the best of "
        "three measurements.",
    ),
    VerdictRule(
        RuleName.VARIANCES,
        1,
        "The variances of the cells differ if Levene's test of the residuals has p < 0.01.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.DRIFT,
        1,
        "Responses drift with run order if the slope of the residuals in run order has p < 0.01.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.SCALE,
        1,
        "A logarithmic scale is advised for a linear model if the greatest response is over 10 times the smallest.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.OUTLIERS,
        1,
        "A run lies far from its cell if its residual is over 3.5 robust standard deviations.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.REGRESSION,
        1,
        "A form of a regression is rejected if its lack of fit against pure error has p < 0.05; of the forms that are "
        "not, the one with common slopes and the smallest residual standard deviation is reported.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.MEMORY_GROWTH,
        1,
        "The memory of a service grows with the number of testers of closed loads if its slope over the valid runs of "
        "at least 3 numbers is above 0 and the growth is at least 5 % of the mean; in proportion, if a quadratic term "
        "has p of 0.05 or more, and only then it is extended, to at most 10 times the highest number.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.SUFFICIENT,
        2,
        "A level of a factor with numbers suffices if every rule of the usable capacity holds at the unfavourable end "
        "of its 95 % interval over the valid runs, there and at all higher levels, and if one of them does not hold at "
        "the favourable end (with Bonferroni's correction over the rules) at each lower level.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.UNTIL_TIGHT,
        1,
        "With repetitions until tight, a cell is tight if after at least `at_least` valid repetitions the half width "
        "of the interval of each named metric (a t interval of the cell's own runs at a nominal level of 97 %) is at "
        "most the wanted share of its estimate.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.SEARCH,
        1,
        "A search finds the load at which a trial of the final length exceeds a goal with the probability `exceed`: a "
        "trial exceeds a goal if more planned starts than the rule allows failed, did not take place, or took longer "
        "than the limit; with two or more brackets, the interval is the 95 % t interval of the mean log estimate over "
        "the searches; with one, the answer is its bracket; a trial in which the load generator was the limit does not "
        "count; the capacities of two levels of a factor differ if the interval of their ratio within the blocks, with "
        "Bonferroni's correction over the ratios of the goal, excludes 1.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.CONDITIONS,
        4,
        "A condition that can explain slow or failed transactions is reported if in the window a service dropped "
        "requests for a connection, or its host did and connections of testers failed or took 1 s; all workers of a "
        "service were in use in 90 % of at least 5 readings, while requests waited if the service counts them; "
        "packets were dropped (of an interface, at least 10 and 0.01 %); 80 % of the local ports were in use toward "
        "one address; connections in TIME-WAIT that had a listening socket each occupied half of the local ports; "
        "a request of a disk that was less than 90 % busy took 20 ms (lower end of the interval: 10 ms) while tasks "
        "waited for I/O for 10 % of the time; the interval of the number of tasks that ran or waited for a core is "
        "above the number of cores; processes outside the experiment used 10 % of the CPU of a host (lower end: 5 %), "
        "where disks, cores and processes of the hosts of a testbed, which share a machine, count once; or emulated "
        "links delivered 1 % of the packets, and at least 10, more than 1 ms late.",
    ),
    VerdictRule(
        RuleName.SESSIONS,
        1,
        "A type of wait explains what the sessions of a database did in a run with at least 15 samples if, by the "
        "lower ends of the intervals, at least one session and at least 25 % of the active ones had it on average; in "
        "a cell if more than half of its valid runs say so.",
        rests_on=(RuleName.VALIDITY,),
    ),
    VerdictRule(
        RuleName.COMPARE,
        1,
        "A metric is slower (worse) or faster (better) if the interval of the ratio new / old, with Holm's correction "
        "over all metrics and cells, lies beyond the margin, unless equal systems in the same experiment differ by as "
        "much or a metric moved that the change cannot affect; it is the same if the 90 % interval lies within the "
        "margin; and undecided otherwise, if a side has one run, and if its runs have two modes.",
        rests_on=(RuleName.VALIDITY,),
    ),
)
"""All rules, each of them once."""

CHECKS_OF_MODELS: Final = {
    ModelReason.VARIANCES_DIFFER: RuleName.VARIANCES,
    ModelReason.DRIFT: RuleName.DRIFT,
    ModelReason.LOG_SCALE: RuleName.SCALE,
    ModelReason.OUTLIERS: RuleName.OUTLIERS,
}
"""Rules on the residuals of a model, by the reason that they report."""

_BY_NAME: Final = {rule_.name: rule_ for rule_ in RULES}
_IDS: Final = {rule_.name: RuleId(rule_.name, rule_.version) for rule_ in RULES}
_OF_REASONS: Final = {
    RunReason.NOT_FINISHED: RuleName.FINISHED,
    RunReason.NOTHING_ENDED: RuleName.SUCCESS,
    RunReason.TESTER_CPU: RuleName.TESTER_CPU,
    RunReason.STARTED: RuleName.STARTED,
    RunReason.LATENESS: RuleName.LATENESS,
    RunReason.GAPS: RuleName.GAPS,
    RunReason.DAMAGED: RuleName.RECORD,
    RunReason.LOST_RECORDS: RuleName.LOST_RECORDS,
    RunReason.UNKNOWN_LOAD: RuleName.LOST_RECORDS,
    RunReason.TREND: RuleName.TREND,
    RunReason.STEAL: RuleName.STEAL,
    RunReason.LOST_AGENTS: RuleName.LOST_AGENTS,
    RunReason.UNKNOWN_CLOCKS: RuleName.CLOCKS,
    RunReason.REQUESTS: RuleName.REQUESTS,
}


def rule(name: RuleName) -> RuleId:
    """Name and version of a rule, to be kept with its verdicts."""
    return _IDS[name]


def basis(name: RuleName) -> tuple[RuleName, ...]:
    """All rules that a rule rests on, directly or indirectly, without itself."""
    names: dict[RuleName, None] = {}
    for rest in _BY_NAME[name].rests_on:
        names |= dict.fromkeys((RuleName(rest), *basis(RuleName(rest))))
    return tuple(names)


def rule_of(reason: RunReason) -> RuleId:
    """The rule behind a reason against a run."""
    return _IDS[_OF_REASONS[reason]]
