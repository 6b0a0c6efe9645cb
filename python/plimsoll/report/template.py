"""Pages: one HTML file each, with a frame and tables that all have (`page/frame.html`, `page/table.html`).

Texts are escaped by Jinja; a content security policy names the scripts of the page and forbids everything else.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

PACKAGE = "plimsoll.report"


@cache
def page_template(package: str, name: str) -> Template:
    """The page `name` of a package's directory `page`."""
    places = [PackageLoader(each, "page") for each in dict.fromkeys((package, PACKAGE))]
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=ChoiceLoader(places),
    )
    return environment.get_template(name)


@cache
def asset(package: str, name: str) -> str:
    """A style or a script of a package's directory `page`."""
    return files(package).joinpath("page", name).read_text(encoding="utf-8")


def policy(*scripts: str) -> str:
    """The content security policy: these inline scripts, inline styles, images in the file, nothing else."""
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
