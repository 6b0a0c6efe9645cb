"""The whole analysis of a results directory: its measurements, the comparison of its pair, and the verdicts that differ
from those of an earlier analysis."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from plimsoll.analyse.answer.load.superseded import earlier_note
from plimsoll.analyse.answer.worded import worded_superseded
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.superseded import NotComparable, with_superseded
from plimsoll.assemble.analysis import analyse_results
from plimsoll.assemble.compare import compare_pair
from plimsoll.assemble.run.options import Options
from plimsoll.collect.earlier import read_earlier
from plimsoll.collect.results import Results, open_results
from plimsoll.errors import DamagedResults


def analysis(directory: str | Path, options: Options | None = None) -> Analysis:
    """Computes the whole analysis of a results directory from its files. Raises DamagedResults."""
    return analysis_of(open_results(Path(directory)), options)


def analysis_of(results: Results, options: Options | None = None) -> Analysis:
    """Computes the whole analysis of open results. Raises DamagedResults.

    If no option that changes figures differs from its default, the verdicts are compared with those of an existing
    analysis.json.
    """
    chosen = options or Options()
    result = analyse_results(results, chosen)
    result = replace(result, comparison=compare_pair(results, result))
    is_default = replace(chosen, chart_quantum_s=None) == Options()
    return _with_earlier(results, result) if is_default else result


def _with_earlier(results: Results, current: Analysis) -> Analysis:
    """The analysis with the verdicts of the earlier analysis that newer rules changed.

    An earlier analysis that cannot be read results in a note, not in an error, because it is not a measurement.
    """
    try:
        earlier = read_earlier(results.path)
        return current if earlier is None else worded_superseded(with_superseded(current, earlier))
    except (DamagedResults, NotComparable) as error:
        return replace(current, notes=(*current.notes, earlier_note(str(error))))
