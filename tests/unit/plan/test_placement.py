"""`services.NAME.host`, `site` and `address`: where services run, and what cannot run there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.cli.experiments.plan import lines
from plimsoll.plan import make_plan
from plimsoll.plan.design.changes import changes, pinning
from plimsoll.plan.load_hosts import load_all_hosts
from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import LOCAL

FILE = """\
plimsoll: 1
services:
  db:    {kind: postgres, host: db1}
  gate:  {kind: frontier, database: db, site: lyon}
  cache: {kind: squid, origin: gate}
data: {t: {into: db, rows: 1000, row: 1kB}}
hosts:
  kind: ssh
  controller: {address: 10.0.0.1}
  sites: {cern: [c1, c2], lyon: [l1, {host: l2, agents: 0}], store: [{host: db1, agents: 0}]}
workload: {driver: frontier, target: cache, table: {table: t, rows: 1}}
load: {testers: 4}
run: {duration: 1s}
"""


def config_of(text: str = FILE, *sets: str) -> Config:
    return load(text, sets).cells[0].config


def placed(config: Config) -> dict[str, str | None]:
    return {service.name: service.host for service in config.services}


def test_a_service_runs_on_its_host_or_on_the_first_host_of_its_site_without_testers() -> None:
    config = config_of()
    assert placed(config) == {"db": "db1", "gate": "l2", "cache": None}
    assert [host.name for host in config.hosts.hosts] == ["c1", "c2", "l1"]
    assert config.service_hosts is not None
    assert [host.name for host in config.service_hosts.hosts] == ["l2", "db1"]
    assert config.service_hosts.controller == "10.0.0.1"


def test_without_hosts_of_testers_the_testers_run_on_this_host() -> None:
    text = FILE.replace("[c1, c2], lyon: [l1, {host: l2, agents: 0}]", "[{host: c1, agents: 0}]")
    config = config_of(text.replace("site: lyon", "site: cern"))
    assert [host.name for host in config.hosts.hosts] == [LOCAL]
    assert not config.hosts.elsewhere
    assert placed(config)["gate"] == "c1"


def test_places_are_paths_for_levels_and_move_only_their_service() -> None:
    experiment = load(FILE.replace("site: lyon", "host: l1") + "factors: {services.gate.host: [l1, l2]}\n")
    first, second = (cell.config for cell in experiment.cells)
    assert (placed(first)["gate"], placed(second)["gate"]) == ("l1", "l2")
    assert changes(first, second, same_cell=False).start == ("gate", "cache")
    assert load(FILE, ["services.gate.address=192.0.2.7"]).cells[0].config.services[1].address == "192.0.2.7"


def test_cores_of_another_host_are_not_those_of_this_one() -> None:
    pins = pinning(config_of(FILE, "services.db.cpus=[77]"), [0, 1])
    assert pins.services["db"] == (77,)


def test_the_plan_names_the_services_of_each_host_with_their_data() -> None:
    text = "\n".join(lines(make_plan(load(FILE), 1), 5))
    assert "services: on db1: db (1 MB of data)" in text
    assert "services: on l2: gate" in text
    assert "at least 3 needed" in text


def test_hosts_of_services_are_checked_and_cleaned_with_those_of_testers(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(FILE)
    hosts = load_all_hosts(file)
    assert [host.name for hosts_of in hosts.services for host in hosts_of.hosts] == ["l2", "db1"]
    assert hosts.kinds == {"db1": {"postgres"}, "l2": {"frontier"}}
    file.write_text("hosts: 1\nkind: ssh\nsites: {a: [h1, {host: h2, agents: 0}]}\n")
    hosts = load_all_hosts(file)
    assert [host.name for host in hosts.testers[0].hosts] == ["h1"]
    assert [host.name for host in hosts.services[0].hosts] == ["h2"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "host: db1}",
            "host: db2}",
            'services.db.host: no host under `hosts` has the name db2; did you mean "db1"?',
        ),
        (
            "site: lyon",
            "site: lion",
            'services.gate.site: there is no site lion under `hosts`; did you mean "lyon"?',
        ),
        ("site: lyon", "site: cern", "services.gate.site: all hosts of the site cern run testers (c1, c2)"),
        ("site: lyon", "site: lyon, host: l1", "services.gate.site: give one of host and site"),
        (
            "{kind: postgres, host: db1}",
            "{kind: sqlite, host: db1}",
            "services.db.host: an SQLite file is on the host",
        ),
        (
            "{kind: postgres, host: db1}",
            "{kind: sqlite}",
            "services.gate.database: the SQLite file is on the host of",
        ),
        ("kind: ssh", "kind: local", "hosts.hosts: l2 has no testers: only hosts of kind ssh and testbed"),
        (
            "sites: {",
            "at_least: 4\n  sites: {",
            "hosts.at_least: at_least is 4, but there are only 3 hosts with testers",
        ),
        ("sites: {", "use: 4\n  sites: {", "hosts.use: use is 4, but there are only 3 hosts with testers"),
        (
            "cache: {kind: squid, origin: gate}",
            "cache: {kind: squid, origin: gate, siblings: [other]}\n  other: {kind: squid, origin: gate, host: l1}",
            "siblings exchange queries over loopback, so place both on one host",
        ),
        ("host: db1}", "host: db1, address: ''}", "services.db.address"),
    ],
)
def test_what_cannot_be_placed_is_reported(old: str, new: str, message: str) -> None:
    assert old in FILE
    text = "\n".join(problems(FILE.replace(old, new, 1)))
    assert message in text


def test_a_service_elsewhere_that_uses_one_of_this_host_needs_its_address() -> None:
    text = FILE.replace("{kind: postgres, host: db1}", "{kind: postgres}")
    assert placed(config_of(text))["db"] is None
    found = "\n".join(problems(text.replace("  controller: {address: 10.0.0.1}\n", "")))
    assert "gate uses db, which runs on this host: give the address of this host" in found


def test_hosts_whose_agents_dial_in_run_no_services() -> None:
    text = FILE[: FILE.index("hosts:")] + FILE[FILE.index("workload:") :]
    text += "hosts: {kind: slurm, slurm: {tasks: 2}, controller: {address: 10.0.0.1}}\n"
    assert "services cannot run on hosts of kind slurm, because their agents dial in" in "\n".join(
        problems(text)
    )
    text = text.replace("kind: slurm, slurm: {tasks: 2}, controller: {address: 10.0.0.1}", "kind: local")
    assert "the file names no other hosts" in "\n".join(problems(text))


def test_paths_of_another_host_must_be_absolute() -> None:
    web = FILE.replace("cache: {kind: squid, origin: gate}", "cache: {kind: nginx, root: files, host: l1}")
    web = web.replace(
        "driver: frontier, target: cache, table: {table: t, rows: 1}", "driver: http, target: cache"
    )
    assert "expected an absolute path of the host on which the service runs" in "\n".join(problems(web))
    config = config_of(web.replace("root: files", "root: /srv/files"))
    assert config.service("cache").settings["root"] == "/srv/files"


def test_metrics_name_hosts_of_services() -> None:
    """Their network is what a service sends, which the kernel does not count for a program."""
    assert load(FILE + "responses: [{metric: network_out.db1}]\n").responses[0].metric == "network_out.db1"
    [problem] = problems(FILE + "responses: [{metric: network_out.db2}]\n")
    assert "there is no component db2" in problem
