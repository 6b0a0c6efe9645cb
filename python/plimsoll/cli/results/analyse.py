"""`plimsoll analyse DIR|TABLE.csv`: repeat the analysis from disk, or apply its statistics to any CSV table."""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from plimsoll.analyse.answer.explained import model_reason
from plimsoll.analyse.answer.worded import worded_model, worded_regression
from plimsoll.analyse.effects.effects import Factorial
from plimsoll.analyse.effects.fits import effects_of, fit_table, model_of
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.document import finite
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.wording import ends, listing, number, p_value, percent
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.whole import analysis_of
from plimsoll.cli.results.outcome import exit_code, print_json, print_summary, write_files
from plimsoll.collect.results import open_results
from plimsoll.errors import BadInput, ExitCode
from plimsoll.report.tables.regressions import table as regression_table

TABLE_FORMAT = "plimsoll.table-analysis/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the source and the options of both kinds."""
    parser.add_argument(
        "source", type=Path, help="results directory, or CSV table whose first line contains the column names"
    )
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON")
    parser.add_argument(
        "--quantum", metavar="TIME", help="directory: interval of the time series, such as 10s"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="directory: analyse with another warm-up, such as run.warmup=20s",
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="directory: compute quantiles from histograms (error at most 0.1 %%)",
    )
    parser.add_argument("--response", metavar="COL", help="table: column of the response variable")
    parser.add_argument("--factors", metavar="A,B", help="table: columns of the factors")
    parser.add_argument("--block", metavar="COL", help="table: column of the blocks")
    parser.add_argument(
        "--scale",
        choices=("linear", "log"),
        default="linear",
        help="table: model of the response (linear) or of its logarithm (log)",
    )


def main(args: argparse.Namespace) -> int:
    """Analyses the source, which is a directory or a table."""
    if args.source.is_dir():
        return _directory(args)
    if args.response is None or args.factors is None:
        raise BadInput(f"{args.source}: a table needs --response COL and --factors A,B")
    return _table(args)


def _directory(args: argparse.Namespace) -> int:
    options = Options.parse(args.set, args.quantum, exact=not args.fast)
    results = open_results(args.source)
    analysis = analysis_of(results, options)
    # An analysis with other options must not replace that of the experiment as it was written.
    written = write_files(results, analysis) if options == Options() else []
    if args.json:
        print_json(analysis)
    else:
        print_summary(analysis, written)
    return exit_code(analysis)


def _table(args: argparse.Namespace) -> int:
    columns = read_table(args.source)
    names = [name.strip() for name in args.factors.split(",") if name.strip()]
    required = [args.response, *names, *([args.block] if args.block else [])]
    for name in required:
        if name not in columns:
            raise BadInput(f"{args.source}: no column {name!r}; the columns are {', '.join(columns)}")
    responses = _numbers(columns[args.response], args.source, args.response)
    factors = {name: [label or None for label in columns[name]] for name in names}
    block = columns[args.block] if args.block else None
    levels = {name: _in_order(columns[name]) for name in names}
    fit = fit_table(responses, factors, levels=levels, block=block, scale=args.scale)
    fitted = regress(responses, factors, response=args.response, block=block, levels=levels)
    regressions = [worded_regression(regression) for regression in fitted]
    if args.json:
        ids = tuple(str(row + 1) for row in range(len(fit.residuals)))
        model = worded_model(model_of(fit, args.response, ids, tuple(range(1, len(ids) + 1))))
        document = {
            "format": TABLE_FORMAT,
            "mean": fit.mean,
            "effects": [asdict(effect) for effect in effects_of(fit, args.response)],
            "model": asdict(model),
            "differences": [asdict(difference) for difference in fit.differences],
            "regressions": [asdict(regression) for regression in regressions],
        }
        print(json.dumps(finite(document), ensure_ascii=False))
    else:
        for line in (*table_lines(fit), *regression_lines(regressions)):
            print(line)
    return int(ExitCode.PASSED)


def _in_order(labels: list[str]) -> list[str]:
    """The levels of a column. Numbers are sorted, so that no sign of an effect depends on the order of the rows; other
    levels are in the order of the file. An empty field is not a level: the factor does not apply."""
    levels = [label for label in dict.fromkeys(labels) if label]
    try:
        return sorted(levels, key=float)
    except ValueError:
        return levels


def read_table(path: Path) -> dict[str, list[str]]:
    """Columns by name, in the order of the file. Raises BadInput if the file is not such a table."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV table: {error}") from error
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise BadInput(f"{path}: expected a line of column names and at least one row")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) != len(names):
        raise BadInput(f"{path}: two columns have the same name")
    for position, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise BadInput(
                f"{path}: row {position} has {len(row)} values, but the first line has {len(names)} columns"
            )
    return {name: [row[at].strip() for row in rows[1:]] for at, name in enumerate(names)}


def _numbers(texts: list[str], path: Path, column: str) -> list[float]:
    values = []
    for row, text in enumerate(texts, 2):
        try:
            value = float(text)
        except ValueError:
            raise BadInput(f"{path}: row {row}, column {column}: {text!r} is not a number") from None
        if not math.isfinite(value):
            raise BadInput(
                f"{path}: row {row}, column {column}: {text!r} is not a finite number; remove the row"
            )
        values.append(value)
    return values


def table_lines(fit: Factorial) -> list[str]:
    """Allocation of variation and effects, as lines of text."""
    rows = [["term", "df", "sum of squares", "variation", "F", "p", "adjusted p"]]
    for term in fit.terms:
        p = "" if term.p_value is None else p_value(term.p_value)
        adjusted = "" if term.adjusted_p is None else p_value(term.adjusted_p)
        variation = "" if term.percent is None else percent(term.percent / 100)
        f = "" if term.f is None else number(term.f)
        rows.append([term.name, str(term.df), number(term.sum_of_squares, 6), variation, f, p, adjusted])
    residual = "" if fit.residual_percent is None else percent(fit.residual_percent / 100)
    rows.append(["residual", str(fit.error_df), number(fit.error_ss, 6), residual, "", "", ""])
    lines = [f"mean {number(fit.mean, 6)}; sums of squares: {fit.sum_of_squares}", "", *_in_columns(rows)]
    if sum(term.p_value is not None for term in fit.terms) > 1:
        lines.append("adjusted p: for all terms together (Holm); intervals are individual")
    lines.append("")
    word = "times" if fit.scale == "log" else "effect"
    for term in fit.terms:
        for level in term.levels:
            interval = f"  ({ends(level.interval, 'number')})" if level.interval else ""
            lines.append(f"{term.name} = {level.label}: {word} {number(level.effect, 4)}{interval}")
    lines += [f"cannot be estimated: {text}" for text in fit.not_estimable]
    lines += map(model_reason, fit.reasons)
    return lines


def regression_lines(regressions: Sequence[Regression]) -> list[str]:
    """The forms of each regression with their coefficients, and what the reported form states."""
    lines = []
    for regression in regressions:
        table = regression_table(regression)
        rows = [[column.name for column in table.columns], *map(list, table.rows)]
        lines += ["", f"regression on {listing(regression.factors)}", *_in_columns(rows), regression.text]
    return lines


def _in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
