"""Looks at the targets of an experiment before anything of it is started.

`wanted` derives from resolved runs what is to be looked at, `visit` does the input and output, `judge` makes errors and
warnings of what was found. Targets that are services of the experiment are not looked at: they are waited for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from plimsoll.drive.probe.judge import IN_FILE, IN_URL_MODE, Options, judged
from plimsoll.drive.probe.visit import look
from plimsoll.drive.probe.wanted import wanted
from plimsoll.errors import BadInput, Problem
from plimsoll.plan import Redactor
from plimsoll.plan.model import Config
from plimsoll.printable import printable_lines

__all__ = ["IN_FILE", "IN_URL_MODE", "probe"]


def probe(configs: Iterable[Config], redactor: Redactor, options: Options) -> None:
    """Prints warnings on stderr. Raises BadInput where a target cannot be measured; nothing has been started then."""
    errors: list[str] = []
    for one in look(wanted(configs)):
        found = judged(one, options)
        if found is None:
            continue
        text = redactor.text(found.text)
        if found.fatal:
            errors.append(text)
        else:
            print(printable_lines(f"plimsoll: warning: {text}"), file=sys.stderr)
    if errors:
        raise BadInput(Problem(text) for text in errors)
