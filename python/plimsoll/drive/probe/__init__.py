"""Checks the targets of an experiment before anything of it is started.

`wanted` derives the visits from resolved runs, `visit` carries them out, and `judge` derives errors and
warnings from the outcomes. Targets that are services of the experiment are not visited: the lab waits for
them when it starts them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from plimsoll.drive.probe.judge import IN_FILE, IN_URL_MODE, Options, judge_visit
from plimsoll.drive.probe.visit import visit_all
from plimsoll.drive.probe.wanted import visits_of
from plimsoll.errors import BadInput, Problem
from plimsoll.plan import Redactor
from plimsoll.plan.model.cell import Config
from plimsoll.printable import printable_lines

__all__ = ["IN_FILE", "IN_URL_MODE", "probe"]


def probe(configs: Iterable[Config], redactor: Redactor, options: Options) -> None:
    """Prints warnings on stderr. Raises BadInput if a target cannot be measured; nothing has been started
    then."""
    errors: list[str] = []
    for result in visit_all(visits_of(configs)):
        judgement = judge_visit(result, options)
        if judgement is None:
            continue
        text = redactor.text(judgement.text)
        if judgement.fatal:
            errors.append(text)
        else:
            print(printable_lines(f"plimsoll: warning: {text}"), file=sys.stderr)
    if errors:
        raise BadInput(Problem(text) for text in errors)
