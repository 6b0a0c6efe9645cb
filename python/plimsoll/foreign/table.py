"""The formats of other tools that `plimsoll compare` reads: the only list of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from plimsoll.foreign import fio, jmeter, k6, oha, pgbench, vegeta, wrk2
from plimsoll.foreign.model import ForeignRun, Lines

HEAD_LENGTH: Final = 64 * 1024
"""Characters of a file from which its format is determined."""


@dataclass(frozen=True, slots=True)
class Format:
    """`title`: in the output; `made_by`: the option that writes it. `pattern`: matches the beginning of the file and of
    no other format. One of `parse_text` (the whole file) and `parse_lines`. `is_summary`: figures of the tool, not
    single requests."""

    title: str
    made_by: str
    pattern: str
    is_summary: bool
    parse_text: Callable[[str, str], ForeignRun] | None = None
    parse_lines: Callable[[Lines, str], ForeignRun] | None = None

    @property
    def contents(self) -> str:
        """What a file contains: one phrase of the output."""
        return f"{self.title}: {'a summary' if self.is_summary else 'single requests'} for each run"


FORMATS: Final = (
    Format("k6 summary", "k6 run --summary-export FILE, or the data of handleSummary",
           r'\A\s*\{(?s:.)*"metrics"\s*:\s*\{', True, parse_text=k6.parse_summary),
    Format("k6 JSON samples", "k6 run --out json=FILE",
           r'\A\s*\{(?=[^\n]*"type"\s*:\s*"(Metric|Point)")[^\n]*"metric"\s*:', False, parse_lines=k6.parse_json),
    Format("k6 CSV samples", "k6 run --out csv=FILE",
           r"\Ametric_name,timestamp,metric_value,", False, parse_lines=k6.parse_csv),
    Format("oha JSON", "oha --output-format json",
           r'\A\s*\{\s*"summary"\s*:(?s:.)*"latencyPercentiles"', True, parse_text=oha.parse_json),
    Format("oha CSV", "oha --output-format csv",
           r"\Arequest-start,DNS,", False, parse_lines=oha.parse_csv),
    Format("vegeta JSON results", "vegeta encode -to json",
           r'\A\{(?=[^\n]*"latency"\s*:)[^\n]*"timestamp"\s*:', False, parse_lines=vegeta.parse_json),
    Format("vegeta CSV results", "vegeta encode -to csv",
           r"\A\d{19},\d+,\d+,\d+,\d+,", False, parse_lines=vegeta.parse_csv),
    Format("vegeta report", "vegeta report -type json",
           r'\A\s*\{\s*"latencies"\s*:', True, parse_text=vegeta.parse_report),
    Format("wrk2 histogram", "wrk2 --latency",
           rf"\ARunning (?s:.)*{wrk2.HEAD}", True, parse_lines=wrk2.parse),
    Format("pgbench log", "pgbench -l",
           r"\A\d+ \d+ (\d+|failed|skipped|serialization|deadlock) \d+ \d{10} \d{1,6}(?=\s|\Z)", False,
           parse_lines=pgbench.parse_log),
    Format("pgbench aggregated log", "pgbench -l --aggregate-interval=SECONDS",
           r"\A\d{10} \d+ \d+ \d+ \d+ \d+", True, parse_lines=pgbench.parse_aggregated),
    Format("JMeter CSV", "jmeter -l FILE",
           r"\A(?=[^\n]*\belapsed\b)[^\n]*\btimeStamp\b", False, parse_lines=jmeter.parse_csv),
    Format("JMeter XML", "jmeter -l FILE -Jjmeter.save.saveservice.output_format=xml",
           r"\A\s*<(?s:.)*<?testResults\b", False, parse_lines=jmeter.parse_xml),
    Format("fio JSON", "fio --output-format=json",
           r'\A(?s:.)*?\{\s*"fio version"\s*:', True, parse_text=fio.parse_json),
    Format("fio latency log", "fio --write_lat_log=PREFIX, the file _lat or _clat",
           r"\A\d+, \d+, [012], \d+", False, parse_lines=fio.parse_log),
)  # fmt: skip


def format_of(head: str) -> Format | None:
    """The format of a file that begins with this text; None: unknown."""
    return next((each for each in FORMATS if re.search(each.pattern, head)), None)


def titles() -> str:
    """The titles of all formats, for help and messages."""
    return ", ".join(each.title for each in FORMATS)
