"""`plimsoll capacity URL --slo "p(99)<100ms"`: the highest rate at which a URL meets a rule, without a file."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from plimsoll.assemble.adaptive.search_request import quantile_of
from plimsoll.cli.experiments.quick import (
    OPTIONS,
    StoredOptions,
    add_request_arguments,
    document,
    run_document,
)
from plimsoll.errors import BadInput
from plimsoll.plan import RuleError, parse_rule
from plimsoll.plan.source.units import NS, UnitError, parse_duration, show_duration, show_rate
from plimsoll.search.goals import starts_for_rules

GOAL: Final = "slo"
HIGHEST: Final = "200000/s"
MIN_TIME_S: Final = 30.0
TRIALS: Final = 60
"""A search has time for this number of trials of the final length."""
FIRST_SHARE: Final = 0.1
"""Share of the time that the trial at the lowest load may take."""
SEARCH_S: Final = 300.0
"""Time for which one search is planned; a longer time has several, and the answer an interval."""
_NAMES: Final = {**OPTIONS, f"search.goals.{GOAL}.response": "--slo", "search.max_time": "--max-time"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the rule, the time, and the options of a request."""
    parser.add_argument("url", help="URL to load: http://... or https://...")
    parser.add_argument("--slo", required=True, metavar="RULE", help='what must hold, such as "p(99)<100ms"')
    parser.add_argument(
        "--max-errors", default="rate<1%", metavar="RULE", help='limit of the errors (default: "rate<1%%")'
    )
    parser.add_argument(
        "--max-time", default="5m", metavar="TIME", help="longest time of the search (default: 5m)"
    )
    parser.add_argument(
        "-c", type=int, default=200, metavar="N", help="maximum number of connections (default: 200)"
    )
    add_request_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Searches the capacity of the URL."""
    options = StoredOptions(os.environ)
    search = search_of(args.slo, args.max_errors, args.max_time)
    args.n, args.z, args.q = None, show_duration(NS["s"]), None
    tree = document(args, options)
    question = tree["question"].removesuffix(f" under {args.c} connections")
    tree |= {
        "name": "capacity",
        "question": f"at which rate does {question} still have {args.slo}?",
        "load": {"in_flight": args.c},
        "run": {"warmup": "0s"},
        "search": search,
    }
    return run_document(tree, options, args, _NAMES)


def search_of(slo: str, errors: str, time: str) -> dict[str, Any]:
    """The section `search` for a rule and a time. The lowest load has enough starts in a tenth of the time. Raises
    BadInput."""
    try:
        seconds = parse_duration(time) / NS["s"]
    except UnitError as error:
        raise BadInput(f"--max-time: {error}") from None
    if seconds < MIN_TIME_S:
        raise BadInput(f"--max-time: a search needs at least {MIN_TIME_S:g} s, got {time}")
    try:
        starts = starts_for_rules(
            [quantile_of(parse_rule(slo, "response"))], [min(parse_rule(errors, "errors").value, 0.999)]
        )
    except RuleError as error:
        raise BadInput(f"--slo, --max-errors: {error}") from None
    one = min(seconds, SEARCH_S)
    final = round(max(1.0, one / TRIALS), 1)
    return {
        "axis": "load.rate",
        "from": show_rate(float(f"{max(1.0, starts / (FIRST_SHARE * one)):.2g}")),
        "to": HIGHEST,
        "goals": {GOAL: {"response": slo, "errors": errors, "width": "10%"}},
        "trial": {"initial": f"{final / 4:g}s", "final": f"{final:g}s", "sum": f"{3 * final:g}s"},
        "repeat": max(1, min(6, int(seconds // SEARCH_S))),
        "max_time": time,
    }
