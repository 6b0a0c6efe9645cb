"""Parsing rules, and checking values against them."""

from __future__ import annotations

import math

import pytest

from plimsoll.plan.metrics.catalogue import METRICS
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.metrics.table import Use


@pytest.mark.parametrize(
    ("text", "metric", "stat", "arg", "op", "value"),
    [
        ("p(95)<500ms", "response", "p", 95.0, "<", 0.5),
        ("p(95)<500", "response", "p", 95.0, "<", 0.5),
        (" p( 99.9 ) <= 2s ", "request", "p", 99.9, "<=", 2.0),
        ("avg<1.5s", "response", "avg", None, "<", 1.5),
        ("mean<20us", "lateness", "avg", None, "<", 2e-5),
        ("med<20µs", "lateness", "med", None, "<", 2e-5),
        ("max<1m", "response", "max", None, "<", 60.0),
        ("min>=1e2", "response", "min", None, ">=", 0.1),
        ("rate<10%", "errors", "rate", None, "<", 0.1),
        ("rate<0.1", "errors", "rate", None, "<", 0.1),
        ("count<=3", "errors", "count", None, "<=", 3.0),
        ("rate>100/s", "throughput", "rate", None, ">", 100.0),
        ("rate>100", "throughput_per_s", "rate", None, ">", 100.0),
        ("rate>10MB/s", "payload_bytes_per_s", "rate", None, ">", 1e7),
        ("avg>=2MiB/s", "wire_bytes_per_s", "avg", None, ">=", 2.0 * 1024**2),
        ("count>1000", "transactions", "count", None, ">", 1000.0),
        ("count<1", "dropped", "count", None, "<", 1.0),
    ],
)
def test_rules_are_parsed(
    text: str, metric: str, stat: str, arg: float | None, op: str, value: float
) -> None:
    rule = parse_rule(text, metric)
    assert (rule.stat, rule.arg, rule.op, rule.metric, rule.text) == (stat, arg, op, metric, text.strip())
    assert rule.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "metric", "message"),
    [
        ("p(95)<500ms", "latency", "unknown metric 'latency': expected one of response"),
        ("", "response", "cannot read the rule ''"),
        ("p95<500", "response", "expected the form 'p\\(95\\)<500ms'"),
        ("p(95)=500", "response", "cannot read"),
        ("p(95)<", "response", "cannot read"),
        ("p(95)<500ms<600ms", "response", "cannot read"),
        ("p(0)<1s", "response", "more than 0 and less than 100"),
        ("p(100)<1s", "response", "less than 100"),
        ("p(95)<500MB", "response", "unit 'MB': expected a duration"),
        ("p(95)<5%", "response", "unit '%'"),
        (
            "rate<10%",
            "response",
            "does not fit the metric response: expected one of p\\(N\\), avg, min, max, med",
        ),
        ("p(95)<10%", "errors", "does not fit the metric errors"),
        ("rate<10", "errors", "needs a share such as 10% or 0.1"),
        ("rate<-1", "errors", "needs a share such as 10% or 0.1"),
        ("rate>10MB", "payload_bytes_per_s", "expected 'rate>10MB/s'"),
        ("rate>10MB/s", "throughput", "unit 'MB/s'"),
        ("count<10ms", "dropped", "expected a count"),
        ("max<1e999s", "response", "not finite"),
    ],
)
def test_invalid_rules_are_rejected(text: str, metric: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_rule(text, metric)


@pytest.mark.parametrize(
    ("op", "below", "at", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_a_rule_compares_a_value_with_its_bound(op: str, below: bool, at: bool, above: bool) -> None:
    rule = parse_rule(f"count{op}5", "transactions")
    assert [rule.holds(v) for v in (4.0, 5.0, 6.0)] == [below, at, above]
    assert rule.upper is op.startswith("<")


def test_nan_satisfies_no_rule() -> None:
    for op in ("<", "<=", ">", ">="):
        assert not parse_rule(f"count{op}5", "transactions").holds(math.nan)


def test_every_metric_has_an_example_that_can_be_read() -> None:
    """The example in the error message is itself a valid rule."""
    for name in METRICS.names(Use.RULE):
        metric = name.replace("OF", "throughput").replace("TO", "concurrency")
        with pytest.raises(RuleError) as caught:
            parse_rule("nonsense", metric)
        example = str(caught.value).split("'")[-2]
        assert isinstance(parse_rule(example, metric), Rule)
