"""The analysis of one run: what does not depend on the order in which transactions occurred."""

from __future__ import annotations

from typing import Any, cast

from plimsoll.analyse.results.run import OperationResult
from plimsoll.assemble.run.one_run import in_file_order


def operation(workload: str, name: str) -> OperationResult:
    return OperationResult(workload, name, cast(Any, None))


def test_operations_have_the_order_of_the_experiment_file() -> None:
    names = {"shop": ["search", "cart", "pay"], "admin": ["list", "edit"]}
    occurred = [
        operation("admin", "edit"),
        operation("shop", "pay"),
        operation("shop", "search"),
        operation("other", "x"),
    ]
    ordered = in_file_order(occurred, names)
    assert [(result.workload, result.operation) for result in ordered] == [
        ("shop", "search"),
        ("shop", "pay"),
        ("admin", "edit"),
        ("other", "x"),
    ]
    assert in_file_order(occurred, {}) == tuple(occurred)
