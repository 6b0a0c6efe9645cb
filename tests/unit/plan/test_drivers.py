"""Properties of every driver of the table."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.deploy.binary import find_engine
from plimsoll.plan.drivers.driver import _no_files
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.schema.load import WorkloadRaw
from plimsoll.plan.schema.paths import unwrapped


def test_a_workload_has_a_name_and_a_section_for_each_driver() -> None:
    fields = WorkloadRaw.model_fields
    assert set(get_args(fields["driver"].annotation)) == set(DRIVERS)
    assert {name: unwrapped(fields[name].annotation) for name in DRIVERS} == {
        name: [driver.section] for name, driver in DRIVERS.items()
    }


@pytest.mark.parametrize("name", DRIVERS)
def test_shared_keys_and_alternatives_are_keys_of_the_section(name: str) -> None:
    driver = DRIVERS[name]
    keys = {info.alias or key for key, info in driver.section.model_fields.items()}
    assert driver.shared_keys <= keys
    assert {key for pair in driver.one_of for key in pair} <= keys - driver.shared_keys


def test_both_halves_state_the_same_about_a_driver() -> None:
    done = subprocess.run([find_engine(), "drivers"], capture_output=True, text=True, check=True)
    stated = {description["name"]: description for description in json.loads(done.stdout)["drivers"]}
    assert stated.keys() == DRIVERS.keys()
    for name, driver in DRIVERS.items():
        assert set(stated[name]["schemes"]) == set(driver.schemes), name
        assert bool(stated[name]["file_keys"]) == (driver.files is not _no_files), name


@pytest.mark.parametrize(
    ("driver", "target", "section"),
    [
        ("http", "https://one.example.org", ""),
        ("ldap", "ldaps://one.example.org", "base: o=grid, "),
        ("sql", "mysql://reader@one.example.org/db", "queries: [SELECT 1], "),
    ],
)
def test_testers_with_client_certificates_can_present_proxies(
    driver: str, target: str, section: str, tmp_path: Path
) -> None:
    (tmp_path / "user.pem").touch()

    def text(tls: str) -> str:
        return f"""
plimsoll: 1
workload: {{driver: {driver}, target: "{target}", {driver}: {{{section}tls: {{{tls}}}}}}}
run: {{duration: 1s}}
load: {{testers: 1}}
"""

    for proxy in ("run", "tester"):
        (cell,) = load(text(f"cert: user.pem, proxy: {proxy}"), directory=tmp_path).cells
        (work,) = cell.config.workloads
        assert isinstance(tls := work.settings["tls"], dict)
        assert (tls["cert"], tls["proxy"]) == (str(tmp_path / "user.pem"), proxy)
    (line,) = problems(text("proxy: run"))
    assert "tls.proxy: a proxy needs the certificate that issues it: give " in line
