"""JMeter: result files (JTL) as CSV and as XML.

Source: JMeter's user manual, "Listeners", sections "CSV Log format" and "XML Log format". Times are in ms; a sample
begins at its time stamp. Only the outermost samples count: those inside a transaction are parts of it.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from plimsoll.foreign.model import ForeignRun, Lines, Transactions, csv_rows, number, refuse

NEEDED = ("timeStamp", "elapsed", "success")
_SAMPLES = ("httpSample", "sample")


def parse_csv(lines: Lines, file: str) -> ForeignRun:
    """A row for each sample, with a head (`jmeter.save.saveservice.print_field_names=true`, the default)."""
    found = Transactions()
    for line, row in csv_rows(lines, file, NEEDED):
        start = number(row["timeStamp"], "timeStamp", file, line)
        took = number(row["elapsed"], "elapsed", file, line)
        found.add(start / 1000, took, ok=_is_true(row["success"], file, line))
    return found.run(file)


def parse_xml(lines: Lines, file: str) -> ForeignRun:
    """An element for each sample: `t` elapsed, `ts` time stamp, `s` success. A DOCTYPE is refused: JMeter writes none,
    and its entities could expand without limit."""
    found = Transactions()
    parser = expat.ParserCreate()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        if name not in _SAMPLES:
            return
        depth += 1
        if depth > 1:
            return
        line = parser.CurrentLineNumber
        if missing := [key for key in ("t", "ts", "s") if key not in attributes]:
            refuse(file, line, f"{name}: expected an attribute {missing[0]}")
        began, took = (number(attributes[key], key, file, line) for key in ("ts", "t"))
        found.add(began / 1000, took, ok=_is_true(attributes["s"], file, line))

    def end(name: str) -> None:
        nonlocal depth
        depth -= name in _SAMPLES

    def doctype(*_: Any) -> None:
        refuse(file, parser.CurrentLineNumber, "a DOCTYPE is not allowed in a JTL file")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    try:
        for _, text in lines:
            parser.Parse(f"{text}\n")
        parser.Parse("", True)
    except expat.ExpatError as error:
        refuse(file, error.lineno, f"is not valid XML: {expat.errors.messages[error.code]}")
    return found.run(file)


def _is_true(text: str, file: str, line: int) -> bool:
    if text not in ("true", "false"):
        refuse(file, line, f'success: expected true or false, got "{text[:40]}"')
    return text == "true"
