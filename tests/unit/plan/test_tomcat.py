"""The service kind `tomcat` in the experiment file, and addresses of other services in texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems

FILE = """\
plimsoll: 1
services:
  db:   {kind: postgres}
  web:  {kind: echo}
  site:
    {kind: tomcat, war: x.war, properties: {db: "{db.jdbc}", origin: "{web.url}/x"}, resources: ["<A b='{db.port}'/>"]}
workload: {driver: http, target: site}
load: {testers: 1}
run: {duration: 1s}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "x.war").touch()
    return tmp_path


def test_a_servlet_needs_the_services_that_its_texts_name(directory: Path) -> None:
    factors = "factors: {keep: {path: services.site.keep_alive, levels: [true, false]}}\n"
    experiment = load(FILE + factors, directory=directory)
    sites = [cell.config.service("site") for cell in experiment.cells]
    assert [site.settings["keep_alive"] for site in sites] == [True, False]
    assert sites[0].needs == ("db", "web")
    assert sites[0].settings["war"] == str(directory / "x.war")
    assert sites[0].settings["properties"]["db"] == "{db.jdbc}"
    assert (sites[0].settings["context"], sites[0].settings["max_keep_alive_requests"]) == ("/", 100)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("x.war", "y.war", "y.war"),
        ("{web.url}", "{wbe.url}", 'there is no service wbe; did you mean "web"?'),
        ("{db.jdbc}", "{web.jdbc}", "web is a service of kind echo, not a database"),
        ("{db.jdbc}", "{site.url}", "move site above site"),
        ("war: x.war", "war: x.war, context: app", 'expected / or a path such as /Frontier, got "app"'),
        ("war: x.war", "war: x.war, ready: page", "expected a path that begins with /"),
        ("war: x.war", "war: x.war, java: seventeen", "expected auto, a major version such as 17"),
        ("war: x.war", "war: x.war, settings: {maxThreads: 3}", "Plimsoll sets this"),
        ("{kind: postgres}", "{kind: sqlite}", "which has no address"),
    ],
)
def test_invalid_settings_are_rejected(directory: Path, before: str, after: str, message: str) -> None:
    assert before in FILE
    assert message in "\n".join(problems(FILE.replace(before, after), directory=directory))
