"""Templates of pages. Each page is one HTML file; all share `page/frame.html` and `page/table.html`.

Jinja escapes texts. A content security policy names the scripts of the page and forbids everything else.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

PACKAGE = "plimsoll.report"
_CODE_SPAN: Final = re.compile("`([^`\n]+)`")


def code_spans(text: str) -> Markup:
    """The text as HTML, with a code element for each span between back-ticks.

    The text is escaped before, so that a span cannot contain an element.
    """
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(text))))


@cache
def page_template(package: str, name: str) -> Template:
    """The page `name` of a package's directory `page`."""
    loaders = [PackageLoader(source, "page") for source in dict.fromkeys((package, PACKAGE))]
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=ChoiceLoader(loaders),
    )
    environment.filters["code_spans"] = code_spans
    return environment.get_template(name)


@cache
def asset(package: str, name: str) -> str:
    """A style or a script of a package's directory `page`."""
    return files(package).joinpath("page", name).read_text(encoding="utf-8")


def policy(*scripts: str) -> str:
    """The content security policy: it allows these inline scripts, inline styles and images in the file, nothing
    else."""
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
