"""The examples, the template of `plimsoll init`, and every block of the reference of the file are valid files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.plan.test_request_log import native

from plimsoll.plan import load_experiment, make_plan, parse_experiment, template
from plimsoll.plan.model.hosts import HostKind
from plimsoll.plan.source.document import parse_document

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
LONG = {"compression": 220, "access-methods": 7 * 3600, "wan": 180}
"""Maximum duration of examples that are longer than 120 s, seconds."""
COUNTED = {"filesystems", "hep"}
"""Examples that only counts end, so their duration is not known before the run."""
REFERENCE = ROOT / "docs" / "experiment-file.md"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_and_short(path: Path) -> None:
    plan = make_plan(load_experiment(path, environ={}), 1)
    assert plan.experiment.name == path.stem and plan.warnings == ()
    assert sum(plan.seconds_left().values()) == pytest.approx(plan.estimate.time_ns / 10**9)
    assert plan.estimate.time_ns < LONG.get(path.stem, 120) * 10**9
    assert (plan.estimate.unbounded > 0) == (path.stem in COUNTED)


def test_the_quickstart_has_the_documented_design() -> None:
    experiment = load_experiment(ROOT / "examples" / "quickstart.yaml", environ={})
    levels = {factor.name: factor.labels for factor in experiment.factors}
    assert levels == {"workers": ("2", "4"), "testers": ("1", "3", "6", "12")}
    assert experiment.design.repetitions == 3 and experiment.load_factor == "testers"
    assert make_plan(experiment, 1).estimate.time_ns < 60 * 10**9


def test_the_template_is_valid() -> None:
    experiment = parse_experiment(template("mine", "mine.yaml"), "mine.yaml", ROOT, (), {})
    assert experiment.name == "mine"
    assert len(make_plan(experiment, 1).runs) == 12


def sections() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", sections(), ids=lambda text: text.split("\n", 1)[0][:40])
def test_the_reference_shows_valid_files(text: str, tmp_path: Path) -> None:
    """A block that is not a whole file is completed with the missing sections."""
    files = {"design.csv": "load.testers\n1\n", "words.txt": "a\n", "body.bin": "x", "schema.sql": "SELECT 1"}
    files["access.log"] = native(1_300_000_000, 1, "SELECT 1") + "\n"
    files["web.log.gz"] = '10.0.0.1 - - [25/Nov/2026:16:49:02 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 0.001\n'
    files["job.trace"] = "plimsoll.trace/1\n"
    files |= dict.fromkeys(("Frontier.war", "postgresql.jar", "tomcat-9.0.98", "tomcat-10.1.60"), "")
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    keys = set(re.findall(r"^([a-z_]+):", text, re.MULTILINE))
    if "plimsoll" not in keys:
        text += "\nplimsoll: 1\n"
    if not keys & {"workload", "workloads"}:
        text += "workload: {driver: http, target: 'http://127.0.0.1:1'}\n"
        text += "" if "load" in keys else "load: {testers: 1}\n"
    elif "workload" in keys and "load" not in keys:
        text += "load: {testers: 1}\n"
    if "run" not in keys:
        text += "run: {}\n" if "stages:" in text else "run: {duration: 1s}\n"
    if "services" not in keys:
        text += "services: {db: {kind: sqlite}, web: {kind: echo}}\n"
    make_plan(
        parse_experiment(
            text, "block.yaml", tmp_path, (), {"TOKEN": "abcdefgh", "HOST": "h", "PW": "ijklmnop"}
        ),
        1,
    )


def test_the_examples_of_hosts_differ_only_in_hosts() -> None:
    """The files of examples/hosts differ in nothing but `hosts:`."""
    paths = sorted((ROOT / "examples" / "hosts").glob("*.yaml"))
    documents = {
        path.stem: parse_document(path.read_text(encoding="utf-8"), path.name).data for path in paths
    }
    assert set(documents) == set(get_args(HostKind))
    assert all(document.pop("hosts")["kind"] == kind for kind, document in documents.items())
    assert len({repr(document) for document in documents.values()}) == 1
    for kind in ("local", "testbed"):  # the others name hosts and files that do not exist here
        make_plan(load_experiment(ROOT / "examples" / "hosts" / f"{kind}.yaml", environ={}), 1)
