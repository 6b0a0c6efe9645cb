"""The table of cells that are repeated until they are tight."""

from __future__ import annotations

from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.load.until_tight import TightCell, UntilTightResult
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.report.tables.until_tight import table


def test_each_cell_has_its_repetitions_widths_and_decision() -> None:
    cells = (
        TightCell({"testers": "1"}, 6, {"throughput": 0.02, "response_p95": 0.05}, is_tight=True),
        TightCell({"testers": "2"}, 20, {"throughput": 0.02, "response_p95": 0.15}, is_tight=False),
        TightCell({"testers": "4"}, 7, {"throughput": None, "response_p95": 0.05}, is_tight=False),
    )
    wanted = {"throughput": 0.05, "response_p95": 0.1}
    found = table(UntilTightResult(wanted, 5, 20, cells, verdict_rules.rule(RuleName.UNTIL_TIGHT)))
    heads = [column.name for column in found.columns]
    assert heads == [
        "Cell",
        "Decision",
        "Valid repetitions",
        "throughput (± 5 %)",
        "p95 of response time (± 10 %)",
    ]
    plain = [[cell.replace("\u00a0", " ") for cell in row] for row in found.rows]
    assert plain == [
        ["testers 1", "tight", "6", "± 2.00 %", "± 5.00 %"],
        ["testers 2", "not converged", "20", "± 2.00 %", "± 15.0 % *"],
        ["testers 4", "not tight yet", "7", "–", "± 5.00 %"],
    ]
    assert "5 to 20 times" in found.note
    alone = UntilTightResult(
        wanted, 5, 20, (TightCell({}, 5, {}, is_tight=True),), verdict_rules.rule(RuleName.UNTIL_TIGHT)
    )
    assert table(alone).columns[0].name == "Decision"
