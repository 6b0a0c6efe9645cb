"""A comparison as JUnit XML, the form that CI servers show as test results: one test case for each metric and cell.

Slower or worse is a failure. Undecided is skipped with its reason: a test that passes would state that the metric is
the same. If the results are not comparable, there is one test case, an error. The form is that of the Ant task junit.
CI servers read its elements testsuites, testsuite, testcase, failure, error, skipped and system-out.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from plimsoll.analyse.results.wording import level_words
from plimsoll.compare.model import Comparison, Reason, Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.printable import printable, printable_lines
from plimsoll.report.compare.comparison import REASONS, conclusion, headline, remarks, sentence
from plimsoll.report.tables.compare.comparison import metric_title, verdict_word


def comparison_junit(result: ComparisonResult, *, fails_on_undecided: bool = False) -> str:
    """The whole document. `fails_on_undecided`: an undecided comparison is a failure, as for the exit code."""
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=printable(f"plimsoll compare {result.experiment}".strip()))
    for comparison in result.comparisons:
        _case(suite, result, comparison, fails_on_undecided=fails_on_undecided)
    if not result.comparisons or result.without_valid:
        case = ET.SubElement(suite, "testcase", classname=_class(result), name="comparable")
        words = " ".join(conclusion(result) if not result.comparisons else remarks(result))
        ET.SubElement(case, "error", message=printable(words))
    for tag in ("failure", "skipped", "error"):
        plural = {"failure": "failures", "error": "errors"}.get(tag, tag)
        suite.set(plural, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    lines = [headline(result), *conclusion(result), *remarks(result)]
    ET.SubElement(suite, "system-out").text = printable_lines("\n".join(lines))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: ET.Element, result: ComparisonResult, comparison: Comparison, *, fails_on_undecided: bool
) -> None:
    cell = f" ({level_words(comparison.cell)})" if comparison.cell else ""
    name = printable(f"{metric_title(comparison)}{cell}")
    case = ET.SubElement(suite, "testcase", classname=_class(result), name=name)
    words = printable(sentence(comparison))
    if comparison.verdict is Verdict.SLOWER:
        ET.SubElement(case, "failure", type=verdict_word(comparison), message=words)
    elif comparison.verdict is Verdict.UNDECIDED:
        why = REASONS.get(comparison.reason or Reason.WIDE, "the intervals support no verdict")
        tag = "failure" if fails_on_undecided else "skipped"
        ET.SubElement(case, tag, message=printable(f"{words}: {why}"))
    else:
        ET.SubElement(case, "system-out").text = words


def _class(result: ComparisonResult) -> str:
    return printable(f"plimsoll.compare.{result.experiment}".rstrip("."))
