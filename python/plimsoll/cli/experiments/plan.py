"""`plimsoll plan FILE`: prints the plan of an experiment file. Starts nothing, but tries limits of services."""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plimsoll.assemble.like import Prediction, earlier_runs, predictions, repetitions_like
from plimsoll.assemble.like_pair import pair_like
from plimsoll.assemble.like_search import earlier_cells
from plimsoll.cli.experiments.plan_pair import pair_lines
from plimsoll.cli.experiments.plan_search import like_document, like_search_lines, search_lines
from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.limits import limited_resources, prove_here, require_limits
from plimsoll.deploy.perf.permission import perf_problem, profiled_hosts
from plimsoll.deploy.programs import HERE
from plimsoll.errors import EngineError, ExitCode
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.design.expected import MIN_TRANSACTIONS, Expected
from plimsoll.plan.hosts.spread import Spread
from plimsoll.plan.sections.baseline import TRANSFER, TRIES, baseline_cost
from plimsoll.plan.source.units import NS, about_duration, about_size, show_duration

SHOWN = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the file and the form of the output."""
    parser.add_argument("file", type=Path, help="experiment file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="change a value of the file"
    )
    parser.add_argument("--all", action="store_true", help=f"list every run (default: the first {SHOWN})")
    parser.add_argument(
        "--like",
        type=Path,
        metavar="DIR",
        help="predict the transactions of each tester, or the time of a search, from earlier results",
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def main(args: argparse.Namespace) -> int:
    """Prints the plan."""
    plan = make_plan(load_experiment(args.file, args.set), secrets.randbits(32))
    limits = _limits(plan)
    shown = len(plan.runs) if args.all else SHOWN
    document, more = _like(plan, args.like, shown) if args.like is not None else ({}, [])
    if args.json:
        print(json.dumps(plan.to_json() | document, indent=1, ensure_ascii=False))
    else:
        for line in [*lines(plan, shown), *more]:
            print(line)
        for line in limits:
            print(f"limits: {line}")
        for line in _perf(plan):
            print(f"perf: {line}")
    return int(ExitCode.PASSED)


def _like(plan: Plan, directory: Path, max_cells: int) -> tuple[dict[str, Any], list[str]]:
    """What earlier results say about a plan: as JSON, and as lines of text. Raises PlimsollError."""
    search = plan.experiment.search
    if search is not None:
        cells = earlier_cells(plan, directory)
        return {"like": like_document(search, cells)}, like_search_lines(search, cells, directory)
    found = predictions(plan, earlier_runs(directory))
    pair = pair_like(plan, directory)
    document: dict[str, Any] = {"like": _document(found)}
    if pair:
        document["detectable"] = [asdict(one) for one in pair]
    text = like_lines(found, directory, max_cells) + repetition_lines(plan, directory)
    return document, text + pair_lines(plan, pair, directory)


def _limits(plan: Plan) -> list[str]:
    """What to know about limits of services on this host. They are tried, since a kernel or an account may not allow
    them. Raises BadInput if one does not hold."""
    resources = limited_resources([run.config for run in plan.runs], None)
    if not resources:
        return []
    try:
        engine = find_engine()
    except EngineError as error:
        return [f"not tried on this host: {error}"]
    proof = prove_here(engine, Path.cwd(), resources)
    require_limits(proof, plan.experiment)
    return [f"tried on this host: {', '.join(resources)}", *proof.remarks]


def _perf(plan: Plan) -> list[str]:
    """Whether perf can take samples of services, tried on this host."""
    texts = []
    for name in profiled_hosts(run.config for run in plan.runs):
        if name is not None:
            texts.append(f"tried on {name} by `plimsoll hosts check` and before the first run")
        elif problem := perf_problem(HERE):
            texts.append(f"no flame graphs of services on this host: {problem}")
        else:
            texts.append("tried on this host; each run samples call stacks in its measured window")
    return texts


def lines(plan: Plan, max_runs: int) -> list[str]:
    """The plan as lines of text, with at most `max_runs` runs."""
    experiment, estimate = plan.experiment, plan.estimate
    search = experiment.search
    what = (
        "a search" if search is not None else f"{_some(len(plan.runs), 'run')} ({experiment.design.counted})"
    )
    text_lines = [f"{experiment.name}: {what}"]
    if experiment.question:
        text_lines.append(f"question: {experiment.question}")
    seed = (
        "from the file"
        if experiment.design.seed is not None
        else "random; `run` draws and records another one"
    )
    if search is not None:
        text_lines += ["", *search_lines(plan, search), ""]
    else:
        text_lines.append(f"order: {experiment.design.order}, seed {plan.seed} ({seed})")
        text_lines += ["", *_table(plan, max_runs), ""]
    unbounded = (
        f", plus {_some(estimate.unbounded, 'run')} that end after a number of requests, not after a time"
        if estimate.unbounded
        else ""
    )
    text_lines.append(f"time: {about_duration(estimate.time_ns)}{unbounded}")
    text_lines += [f"repetitions: {text}" for text in _repetitions(plan)]
    text_lines.append(
        f"restarts: {_some(estimate.restarts, 'service')}, {_some(estimate.loads, 'table')} written"
    )
    text_lines.append(
        f"disk: {about_size(estimate.disk_bytes)} of results, {about_size(estimate.disk_peak_bytes)} free space needed"
    )
    text_lines += [f"assumption: {text}" for text in estimate.assumptions]
    text_lines += [f"cannot be estimated: {text}" for text in plan.not_estimable]
    text_lines += [f"needs root: {text}" for text in plan.needs_root]
    text_lines += [f"hosts: {text}" for spread in plan.spreads for text in _hosts(spread)]
    text_lines += [f"baseline: {text}" for text in _baseline(plan)]
    text_lines += [f"services: {text}" for text in _placed(plan)]
    text_lines += _on_hosts(plan)
    text_lines += [f"watched: {text}" for text in _watched(plan)]
    text_lines += [f"log: {text}" for text in plan.remarks]
    text_lines += [f"warning: {text}" for text in plan.warnings]
    return text_lines


def _repetitions(plan: Plan) -> list[str]:
    """The range of the numbers of runs of a design that repeats its cells until they are tight."""
    until = plan.experiment.design.until
    if until is None:
        return []
    seconds = plan.seconds_left()
    least = [run for run in plan.runs if run.repetition <= until.at_least]
    time, at_most = sum(seconds[run.id] for run in least), about_duration(plan.estimate.time_ns)
    wanted = ", ".join(
        f"{metric} is known to +/- {100 * width:g} %" for metric, width in until.widths.items()
    )
    return [
        f"{until.at_least} to {until.at_most} of each cell, until {wanted}: {_some(len(least), 'run')} "
        f"({about_duration(time * NS['s'])}) to {_some(len(plan.runs), 'run')} ({at_most})"
    ]


def like_lines(found: Sequence[Prediction], directory: Path, max_cells: int) -> list[str]:
    """The predicted transactions of each cell, with the assumption, and a warning about too few per tester."""
    if not found:
        return [
            f"expected: nothing, because no run has a closed load and a known length (--like {directory})"
        ]
    texts = [
        f"assumption: response times are the means of the most similar run of {directory}: most equal levels, then the "
        "nearest number of testers. More load than there makes them longer, and the counts smaller"
    ]
    few: dict[str, Expected] = {}
    for prediction in found[:max_cells]:
        cell = ", ".join(f"{name}={level}" for name, level in prediction.cell.items()) or "each run"
        for work in prediction.workloads:
            name = cell if len(prediction.workloads) == 1 else f"{cell}, {work.workload}"
            texts.append(
                f"expected: {name}: {_number(work.per_tester)} transactions per tester in the window, "
                f"{_number(work.total)} in a run (response time {work.response_ns / 1e6:.3g} ms, as in run "
                f"{prediction.like})"
            )
    for prediction in found:
        for work in prediction.workloads:
            if work.per_tester < MIN_TRANSACTIONS:
                few[", ".join(prediction.cell.values()) + work.workload] = work
    if few:
        least = min(few.values(), key=lambda work: work.per_tester)
        cells = sum(len(prediction.workloads) for prediction in found)
        texts.append(
            f"warning: fewer than {MIN_TRANSACTIONS} transactions per tester in {len(few)} of {cells} cells "
            f"({_number(least.per_tester)} at least): fairness and saturation are uncertain there. A window of "
            f"{about_duration(round(max(work.needed_ns for work in few.values())))} has {MIN_TRANSACTIONS}"
        )
    if len(found) > max_cells:
        texts.append(f"... and {len(found) - max_cells} more cells (--all lists all)")
    return texts


def repetition_lines(plan: Plan, directory: Path) -> list[str]:
    """The expected repetitions of a design that repeats its cells until they are tight, and what they can show."""
    until = plan.experiment.design.until
    if until is None:
        return []
    expected = repetitions_like(plan, directory)
    if not expected:
        return [f"expected: no number of repetitions, because no cell of {directory} has two valid runs"]
    texts = []
    for one in expected:
        needed = f"more than {until.at_most}" if one.repetitions is None else f"about {one.repetitions}"
        number = one.repetitions or until.at_most
        texts.append(
            f"expected: {needed} repetitions for {one.metric} +/- {100 * until.widths[one.metric]:g} %: the runs of a "
            f"cell in {directory} differ by {100 * one.sd:.2g} %. Between two cells, {number} repetitions show a "
            f"difference of {100 * one.detectable:.2g} % with a probability of 80 %"
        )
    return texts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= MIN_TRANSACTIONS else f"{value:.1f}"


def _document(found: Sequence[Prediction]) -> list[dict[str, object]]:
    return [
        {
            "cell": dict(prediction.cell),
            "runs": prediction.runs,
            "like": prediction.like,
            "workloads": [
                {
                    "workload": work.workload,
                    "testers": work.testers,
                    "response_ms": work.response_ns / 1e6,
                    "transactions_per_tester": work.per_tester,
                    "transactions": work.total,
                }
                for work in prediction.workloads
            ],
        }
        for prediction in found
    ]


def _hosts(spread: Spread) -> list[str]:
    if not spread.hosts:
        agents = "agents" if spread.expected is None else _some(spread.expected, "agent")
        return [f"{agents} of kind {spread.kind}; at least {spread.at_least} needed"]
    used = sum(map(len, spread.hosts.values()))
    sites = "; ".join(f"{site}: {_few(names)}" for site, names in spread.hosts.items())
    texts = [
        f"{used} of {spread.of}, {spread.kind} ({sites}), {_some(len(spread.agents), 'agent')}; "
        f"at least {spread.at_least} needed"
    ]
    for work, testers in spread.testers.items():
        low, high = min(testers.values()), max(testers.values())
        amount = str(low) if low == high else f"{low} to {high}"
        total = _some(sum(testers.values()), "tester")
        texts.append(f"{work}: {total} on {_some(len(testers), 'agent')}, {amount} each")
    return texts


def _baseline(plan: Plan) -> list[str]:
    cost = baseline_cost([run.config for run in plan.runs])
    if cost is None:
        return []
    of = "each host" if cost.hosts is None else _some(cost.hosts, "host")
    least, most = (about_duration(seconds * 1e9) for seconds in (cost.least_s, cost.most_s))
    each = " for each host" if cost.hosts is None else ""
    return [
        f"round trip and TCP throughput of {of}, one after the other, before the first run and after the last: "
        f"{least} to {most}{each} each time, in addition to the time above; a figure that has become worse is measured "
        f"up to {TRIES} times",
        f"at most {about_size(TRANSFER['max_bytes'])} per host, other end and direction, each time",
    ]


def _on_hosts(plan: Plan) -> list[str]:
    """Texts of the hooks that run on hosts other than the controller."""
    configs = [
        config
        for config in (run.config for run in plan.runs)
        if config.hosts.elsewhere or config.service_hosts is not None
    ]
    commands = [
        (when, hook)
        for config in configs
        for when, hooks in (("before", config.before_run), ("after", config.after_run))
        for hook in hooks
    ]
    return list(
        dict.fromkeys(
            f"{hook.where.removeprefix('here and ')}: {hook.shown}, {when} each run"
            for when, hook in commands
            if hook.where
        )
    )


def _placed(plan: Plan) -> list[str]:
    """The services on each other host, with the size of the data that is written there."""
    names: dict[str, dict[str, None]] = {}
    sizes: dict[str, int] = {}
    for config in (run.config for run in plan.runs):
        written: dict[str, int] = {}
        for service in config.services:
            if service.host is not None:
                names.setdefault(service.host, {})[service.name] = None
                data = sum(data_set.bytes for data_set in config.data if data_set.into == service.name)
                written[service.host] = written.get(service.host, 0) + data
        for host, size in written.items():
            sizes[host] = max(sizes.get(host, 0), size)
    return [
        f"on {host}: {', '.join(placed)}" + (f" ({about_size(sizes[host])} of data)" if sizes[host] else "")
        for host, placed in names.items()
    ]


def _few(names: Sequence[str], limit: int = 6) -> str:
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest


def _watched(plan: Plan) -> list[str]:
    entries = [entry for run in plan.runs for entry in run.config.watched]
    texts = [f"{entry.name} ({entry.shown}), every {show_duration(entry.every_ns)}" for entry in entries]
    hosts = (watched_host for run in plan.runs for watched_host in run.config.watched_hosts)
    texts += [
        " and ".join(
            [f"the host {watched_host.host.name}", *(process.name for process in watched_host.processes)]
        )
        for watched_host in hosts
    ]
    return list(dict.fromkeys(texts))


def _some(amount: int, word: str) -> str:
    return f"{amount} {word if amount == 1 else word + 's'}"


def _table(plan: Plan, max_runs: int) -> list[str]:
    factors = [factor.name for factor in plan.experiment.factors]
    has_control = any(run.control for run in plan.runs)
    rows = [
        [
            "run",
            *factors,
            "repetition",
            *(["block"] if any(run.block for run in plan.runs) else []),
            *(["control"] if has_control else []),
            "restarts",
        ]
    ]
    for run, change in list(zip(plan.runs, plan.between, strict=True))[:max_runs]:
        cells = [run.cell.get(name, "") for name in factors]
        block = [run.block] if run.block else []
        control = (["yes"] if run.control else [""]) if has_control else []
        rows.append([run.id, *cells, str(run.repetition), *block, *control, " ".join(change.start)])
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    text_lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    if len(plan.runs) > max_runs:
        text_lines.append(f"... and {len(plan.runs) - max_runs} more runs (--all lists all)")
    return text_lines
