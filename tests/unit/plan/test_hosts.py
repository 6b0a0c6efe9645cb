"""`hosts:`: valid and invalid keys, and the assignment of testers to hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.plan.helpers import BASE, alternatives, edited, load, problems

from plimsoll.cli.experiments.plan import lines
from plimsoll.errors import AgentsLost, BadInput
from plimsoll.plan import engine_document, make_plan
from plimsoll.plan.hosts.spread import Place, chosen, places, shares, spread, usable_words
from plimsoll.plan.hosts.testbed import load_testbed
from plimsoll.plan.load_hosts import load_hosts
from plimsoll.plan.model import hosts as model_hosts
from plimsoll.plan.model.hosts import Host, HostKind, Hosts

SITES = "hosts: {kind: ssh, controller: {address: 10.0.0.1}, sites: {cern: [c1, c2, c3], lyon: [l1, l2]}}\n"
WEB = {"web": ["http://10.0.0.1:1"]}


def hosts_of(text: str, directory: Path = Path("/nowhere")) -> Hosts:
    return load(text, directory=directory).cells[0].config.hosts


def test_without_hosts_there_is_one_local_agent() -> None:
    plan = make_plan(load(BASE), 1)
    config = plan.runs[0].config
    assert config.hosts == Hosts() and not config.hosts.named and not config.hosts.elsewhere
    document = engine_document(plan.runs[0], WEB, Path("/r"), "x")
    assert "agents" not in document["workloads"][0] and "hosts" not in document
    assert "hosts" not in plan.to_json()


def test_every_key_of_ssh_hosts_is_resolved() -> None:
    hosts = hosts_of(
        BASE
        + """\
hosts:
  kind: ssh
  sites: {cern: [lx1, lx2], lyon: [{host: cc1, agents: 2, user: me, port: 2222, link: 10Gbit/s}]}
  use: 2
  at_least: 1
  require: {cores: ">=2", memory: ">= 4GB", rtt: "<5ms", architecture: x86_64, clock_bound: "<=1ms"}
  ssh: {options: ["-o", "Compression=yes"], unknown_host_keys: accept}
  directory: ~/.cache/elsewhere/
  keep: nothing
  link: tcp
  controller: {address: 10.0.0.1, ports: 4000..4100}
  link_grace: 5s
  on_agent_loss: abort
  clock: {physical_min_rtt: 1ms, max_rate_error_ppm: 50}
"""
    )
    assert hosts.hosts == (
        Host("lx1", "lx1", "cern"),
        Host("lx2", "lx2", "cern"),
        Host("cc1", "cc1", "lyon", 2, "me", 2222, 1.25e9),
    )
    assert (hosts.use, hosts.at_least, hosts.keep, hosts.link) == (2, 1, "nothing", "tcp")
    assert {requirement.what: (requirement.operator, requirement.value) for requirement in hosts.require} == {
        "cores": (">=", 2.0),
        "memory": (">=", 4e9),
        "rtt": ("<", 5e6),
        "clock_bound": ("<=", 1e6),
    }
    assert hosts.architecture == "x86_64"
    assert hosts.ssh.accept_unknown and hosts.ssh.options == ("-o", "Compression=yes")
    assert (hosts.directory, hosts.controller, hosts.ports) == (
        "~/.cache/elsewhere",
        "10.0.0.1",
        (4000, 4100),
    )
    assert hosts.link_grace_ns == 5_000_000_000 and hosts.on_agent_loss == "abort"
    assert (hosts.clock.physical_min_rtt_ns, hosts.clock.max_rate_error_ppm) == (1_000_000, 50.0)


def test_other_kinds_of_hosts_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "job.sub").write_text("arguments = agent --join {token}\nqueue\n")
    slurm = hosts_of(BASE + "hosts: {kind: slurm, controller: {address: h}, slurm: {tasks: 4, time: 1h}}\n")
    assert slurm.slurm is not None and (slurm.expected, slurm.link) == (4, "tcp")
    dask = hosts_of(BASE + "hosts: {kind: dask, controller: {address: h}, dask: {address: 'tcp://h:1'}}\n")
    assert (dask.dask, dask.expected, dask.hosts) == ("tcp://h:1", None, ())
    gram = hosts_of(
        BASE
        + "hosts: {kind: gram, controller: {address: h}, gram: {contact: 'ce:2119/jobmanager-fork', agents: 3}}\n"
    )
    assert gram.gram is not None and (gram.expected, gram.link, gram.gram.address) == (3, "tcp", "ce")
    join = hosts_of(
        BASE + "hosts: {kind: join, controller: {address: h}, "
        "join: {submit: [condor_submit, '{file}'], template: job.sub, agents: 10}}\n",
        tmp_path,
    )
    assert join.join is not None and join.join.template == str(tmp_path / "job.sub")


WRONG = [
    ("{kind: shs, hosts: [a]}", f'x.yaml:10: hosts.kind: expected {alternatives(get_args(HostKind))}, got "shs"'),
    ("{kind: slurm}", "x.yaml:10: hosts: hosts of kind slurm need the key slurm: {tasks: 4, partition: NAME"),
    ("{kind: gram}", "x.yaml:10: hosts: hosts of kind gram need the key gram: {contact: 'HOST:2119/jobmanager-fork'"),
    ("{kind: gram, gram: {contact: '-o x', agents: 1}}", "x.yaml:10: hosts.gram.contact"),
    ("{kind: gram, gram: {contact: ce, agents: 1, request: 'queue=x'}}", "x.yaml:10: hosts.gram.request"),
    ("{kind: testbed}", "x.yaml:10: hosts: hosts of kind testbed need the key testbed: the path of a testbed file"),
    ("{kind: ssh, hosts: [a], sites: {s: [b]}}", "x.yaml:10: hosts.hosts: give hosts (of one site) or sites"),
    ("{kind: ssh, hosts: [a, b, a]}", "x.yaml:10: hosts.hosts: the host a is listed twice"),
    (
        "{kind: ssh, hosts: [{host: a, agents: 2}, a.1]}",
        "x.yaml:10: hosts.hosts: two agents have the name a.1: rename one of the hosts",
    ),
    ("{kind: ssh, hosts: ['-oProxyCommand=x']}", "x.yaml:10: hosts.hosts.0: expected a host"),
    ("{kind: ssh, hosts: [{host: 'fe80::1'}]}", "x.yaml:10: hosts.hosts.0: fe80::1 is not valid in a file name"),
    ("{kind: ssh, hosts: [a], use: 2}", "x.yaml:10: hosts.use: use is 2, but there are only 1 hosts"),
    ("{kind: ssh, hosts: [a, b], use: 1, at_least: 3}", "hosts.at_least: at_least is 3, but there are only 2 hosts"),
    ("{kind: ssh, hosts: [a], require: {cores: 2}}", "hosts.require.cores: expected a bound such as \">=2\", got"),
    ("{kind: ssh, hosts: [a], require: {rtt: '<5'}}", 'hosts.require.rtt: "5" has no unit'),
    ("{kind: ssh, hosts: [a], require: {core: '>=2'}}", 'hosts.require.core: unknown key; did you mean "cores"?'),
    ("{kind: ssh, hosts: [a], directory: /}", "x.yaml:10: hosts.directory: expected a directory on the hosts"),
    ("{kind: ssh, hosts: [a], directory: '~/a b'}", "x.yaml:10: hosts.directory: expected a directory on the hosts"),
    ("{kind: ssh, hosts: [a], directory: '~/$(id)'}", "x.yaml:10: hosts.directory: expected a directory"),
    ("{kind: ssh, hosts: [a], ssh: {config: no}}", "x.yaml:10: hosts.ssh.config: there is no file /nowhere/no"),
    ("{kind: ssh, hosts: [a]}", "x.yaml:10: hosts: testers on other hosts use web, which runs on this host"),
    ("{kind: ssh, hosts: [a], controller: {address: b, ports: 9..1}}", "hosts.controller.ports: expected ports from"),
    ("{kind: dask, dask: {address: x}, hosts: [a]}", "x.yaml:10: hosts.hosts: hosts of kind dask are not listed"),
    ("{kind: dask, dask: {address: x}, link: ssh}", "x.yaml:10: hosts.link: agents of kind dask dial in: tcp or quic"),
    ("{baseline: true}", "x.yaml:10: hosts.baseline: the testers run on the host of the lab, and a baseline measures"),
    ("{kind: ssh, hosts: [a], controller: {address: b}, require: {network: '>=1Mbit/s'}}",
     "x.yaml:10: hosts.require.network: the throughput of a host is known only if it is measured: add baseline: true"),
    ("{kind: ssh, hosts: [a], baseline: true, require: {network: '>=50MB/s'}}",
     "x.yaml:10: hosts.require.network: expected a rate of bits such as 10Gbit/s"),
    ("none.yaml", "x.yaml:10: hosts: none.yaml cannot be read: No such file or directory"),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "message"), WRONG)
def test_invalid_hosts_are_reported_with_their_path(hosts: str, message: str) -> None:
    assert any(message in line for line in problems(BASE + f"hosts: {hosts}\n"))


BED = """
testbed: 1
name: wan
lab: cern
sites: {cern: {hosts: 2}, tokyo: {hosts: 2}}
links: [{between: [cern, tokyo], rtt: 315ms}]
"""


def test_hosts_of_a_testbed_come_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "wan.yaml").write_text(BED)
    address = load_testbed(tmp_path / "wan.yaml").lab.address
    hosts = hosts_of(BASE + "hosts: {kind: testbed, testbed: wan.yaml, agents: 2}\n", tmp_path)
    assert [(host.name, host.site, host.agents) for host in hosts.hosts] == [
        ("cern-1", "cern", 2),
        ("cern-2", "cern", 2),
        ("tokyo-1", "tokyo", 2),
        ("tokyo-2", "tokyo", 2),
    ]
    assert (hosts.controller, hosts.link, hosts.testbed) == (address, "ssh", str(tmp_path / "wan.yaml"))
    some = "sites: {tokyo: [{host: tokyo-2, name: far, agents: 3, link: 1Gbit/s}], cern: [cern-1]}"
    hosts = hosts_of(BASE + f"hosts: {{kind: testbed, testbed: wan.yaml, {some}}}\n", tmp_path)
    assert [(host.name, host.address, host.site, host.agents, host.link_bytes_s) for host in hosts.hosts] == [
        ("far", "tokyo-2", "tokyo", 3, 125e6),
        ("cern-1", "cern-1", "cern", 1, None),
    ]
    some = f"hosts: [tokyo-1, cern-2], use: 1, controller: {{address: {address}, ports: 4000..4100}}"
    hosts = hosts_of(BASE + f"hosts: {{kind: testbed, testbed: wan.yaml, {some}}}\n", tmp_path)
    assert hosts.sites == ("tokyo", "cern") and (hosts.use, hosts.ports) == (1, (4000, 4100))


WRONG_BEDS = [
    (
        "testbed: wan.yaml, hosts: [tokio-1]",
        'no host tokio-1 for testers; did you mean "tokyo-1"?',
    ),
    (
        "testbed: wan.yaml, hosts: [lab]",
        "x.yaml:10: hosts.hosts.0: the testbed wan has no host lab for testers",
    ),
    ("testbed: wan.yaml, sites: {tokio: [x]}", 'the testbed wan has no site tokio; did you mean "tokyo"?'),
    (
        "testbed: wan.yaml, sites: {tokyo: [cern-1]}",
        "in the testbed wan the host cern-1 belongs to the site cern",
    ),
    (
        "testbed: wan.yaml, hosts: [{host: cern-1, user: me}]",
        "x.yaml:10: hosts.hosts.0: the testbed sets the user",
    ),
    (
        "testbed: wan.yaml, controller: {address: 127.0.0.1}",
        "hosts.controller.address: the host lab of the testbed wan",
    ),
    ("testbed: wan.yaml, use: 5", "x.yaml:10: hosts.use: use is 5, but there are only 4 hosts"),
    ("testbed: none.yaml", "x.yaml:10: hosts.testbed: there is no file"),
    ("testbed: bad.yaml", 'x.yaml:10: hosts.testbed: bad.yaml:4: lab: there is no site "cren"'),
    ("testbed: empty.yaml", "x.yaml:10: hosts.testbed: the testbed wan has no hosts for testers"),
]


@pytest.mark.parametrize(("hosts", "message"), WRONG_BEDS)
def test_invalid_hosts_of_a_testbed_are_reported_with_their_path(
    hosts: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "wan.yaml").write_text(BED)
    (tmp_path / "bad.yaml").write_text(BED.replace("lab: cern", "lab: cren"))
    (tmp_path / "empty.yaml").write_text(BED.replace("hosts: 2", "hosts: 0"))
    lines_of_problem = problems(BASE + f"hosts: {{kind: testbed, {hosts}}}\n", directory=tmp_path)
    assert len(lines_of_problem) == 1 and message in lines_of_problem[0], lines_of_problem


def test_a_hosts_file_has_its_own_lines_and_directory(tmp_path: Path) -> None:
    directory = tmp_path / "sites"
    directory.mkdir()
    (directory / "ssh_config").write_text("")
    (directory / "cern.yaml").write_text(
        "hosts: 1\nkind: ssh\ncontroller: {address: c}\nssh: {config: ssh_config}\nsites:\n  cern: [a, b]\n"
    )
    text = BASE + "hosts: sites/cern.yaml\nfactors: {hosts.use: [1, 2]}\n"
    cells = load(text, directory=tmp_path).cells
    assert [len(chosen(cell.config.hosts)) for cell in cells] == [1, 2]
    assert cells[0].config.hosts.ssh.config == str(directory / "ssh_config")
    assert cells[0].stored["hosts"]["sites"] == {"cern": ["a", "b"]}
    (directory / "cern.yaml").write_text("hosts: 1\nkind: ssh\nsites:\n  cern: [a,\n    {host: b, prt: 3}]\n")
    assert problems(text, directory=tmp_path) == [
        'sites/cern.yaml:5: hosts.sites.cern.1.prt: unknown key; did you mean "port"?'
    ]
    assert load(BASE, ["hosts={kind: local, agents: 3}"]).cells[0].config.hosts.hosts[0].agents == 3
    with pytest.raises(BadInput, match=r"--set hosts=sites/cern\.yaml: hosts\.sites\.cern\.1\.prt: unknown"):
        load(BASE, ["hosts=sites/cern.yaml"], directory=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: ssh\n", "h.yaml:1: hosts: a hosts file begins with `hosts: 1`"),
        ("hosts: [a]\n", "h.yaml:1: hosts: a hosts file begins with `hosts: 1`, got a list of length 1"),
        ("hosts: 2\n", "h.yaml:1: hosts: the file has format 2, this version of Plimsoll reads format 1: install"),
        ("hosts: true\n", "begins with `hosts: 1`, got true"),
        ("hosts: 1\nkind: ssh\nsites: {a: []}\n", "h.yaml:3: hosts.sites.a: expected at least one item, got none"),
    ],
)  # fmt: skip
def test_invalid_hosts_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "h.yaml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_hosts(tmp_path / "h.yaml")
    assert message in str(caught.value)


def test_load_hosts_reads_both_kinds_of_files_and_all_cells(tmp_path: Path) -> None:
    (tmp_path / "h.yaml").write_text("hosts: 1\nkind: ssh\nsites: {s: [a, b]}\nuse: 1\n")
    assert [host.name for host in load_hosts(tmp_path / "h.yaml")[0].hosts] == ["a", "b"]
    (tmp_path / "x.yaml").write_text(BASE + SITES + "factors: {hosts.use: [1, 2], hosts.agents: [1, 2]}\n")
    variants = load_hosts(tmp_path / "x.yaml")
    assert [(hosts.hosts[0].agents, hosts.at_least) for hosts in variants] == [(1, 2), (2, 2)]
    (tmp_path / "x.yaml").write_text(BASE + SITES.replace("kind: ssh,", "kind: ssh, at_least: 1,"))
    assert [hosts.at_least for hosts in load_hosts(tmp_path / "x.yaml")] == [1]


def test_hosts_are_used_from_the_sites_in_turn() -> None:
    hosts = replace(hosts_of(BASE + SITES), use=3)
    assert [host.name for host in chosen(hosts)] == ["c1", "c2", "l1"]
    assert [host.name for host in chosen(hosts, {"c3", "l1", "l2"})] == ["c3", "l1", "l2"]
    assert [host.name for host in chosen(replace(hosts, use=None), {"l2", "c1"})] == ["c1", "l2"]


def test_the_number_of_usable_hosts_is_reported() -> None:
    hosts = hosts_of(BASE + SITES)
    assert usable_words(hosts, 2, 5, 3) == "2 of 5 hosts can be used, at least 3 are required"
    assert (
        usable_words(hosts, 1, 2, 1, use="watched") == "1 of 2 hosts can be watched, at least 1 are required"
    )
    agents = replace(hosts, kind="join")
    assert usable_words(agents, 1, 2, 2) == "1 of 2 agents can be used, at least 2 are required"


def test_testers_are_spread_evenly_over_hosts_first() -> None:
    agents = places([Host("a", "a", "s", 2), Host("b", "b", "s"), Host("c", "c", "t", 3)])
    assert [agent.name for agent in agents] == ["a.1", "b", "c.1", "a.2", "c.2", "c.3"]
    for testers in (1, 5, 6, 1000, 1003):
        dealt = shares(testers, agents)
        assert sum(dealt.values()) == testers and max(dealt.values()) - min(dealt.values()) <= 1
    assert shares(3, []) == {}


def test_per_host_is_the_number_of_testers_on_each_host() -> None:
    text = (
        edited("{testers: 1}", "{per_host: 7}")
        + SITES
        + "factors: {load.per_host: [7, 9], hosts.use: [2, 4]}\n"
    )
    experiment = load(text)
    plan = make_plan(experiment, 1)
    assert experiment.load_factor == "load.per_host"
    testers = {tuple(run.cell.values()): spread(run.config).testers["main"] for run in plan.runs}
    assert testers["7", "2"] == {"c1": 7, "l1": 7}
    assert testers["9", "4"] == {"c1": 9, "c2": 9, "l1": 9, "l2": 9}
    run = next(run for run in plan.runs if run.cell == {"load.per_host": "9", "hosts.use": "4"})
    work = engine_document(run, WEB, Path("/r"), "x")["workloads"][0]
    assert (work["agents"], work["load"]["testers"]) == (["c1", "c2", "l1", "l2"], 36)
    present = [Place("c1", "c1", "cern"), Place("l1.1", "l1", "lyon"), Place("l1.2", "l1", "lyon")]
    work = engine_document(run, WEB, Path("/r"), "x", agents=present)["workloads"][0]
    assert (work["agents"], work["load"]["testers"]) == (["c1", "l1.1", "l1.2"], 18)


def test_per_host_needs_the_same_number_of_agents_on_each_host() -> None:
    text = edited("{testers: 1}", "{per_host: 7, every: 1s}")
    messages = problems(
        text + "hosts: {kind: ssh, controller: {address: c}, hosts: [{host: a, agents: 2}, b]}\n"
    )
    assert messages == [
        "x.yaml:8: load.per_host: per_host needs the same number of agents on each host, and the numbers differ: "
        "give each host the same `agents`"
    ]
    dask = "hosts: {kind: dask, controller: {address: c}, dask: {address: d}}\n"
    assert "the number of hosts of kind dask is not known" in problems(text + dask)[0]


def test_a_workload_is_bound_to_its_sites() -> None:
    text = edited("  target: web\n", "  target: web\n  site: lyon\n") + SITES
    run = make_plan(load(text), 1).runs[0]
    assert engine_document(run, WEB, Path("/r"), "x")["workloads"][0]["agents"] == ["l1", "l2"]
    with pytest.raises(AgentsLost, match="no host of the site lyon is available for the workload main"):
        engine_document(run, WEB, Path("/r"), "x", agents=[Place("c1", "c1", "cern")])
    assert problems(text.replace("site: lyon", "site: lion")) == [
        'x.yaml:8: workload.site: there is no site lion; the sites of hosts are cern, lyon; did you mean "lyon"?'
    ]
    few = text.replace("kind: ssh,", "kind: ssh, use: 1,")
    assert problems(few) == ["x.yaml:8: workload.site: none of the 1 hosts in use belongs to the site lyon"]
    assert len(load(text + "factors: {workload.site: [cern, lyon]}\n").cells) == 2
    assert "there is no site lyon; the sites of hosts are local" in problems(text.replace(SITES, ""))[0]


def test_local_agents_can_emulate_hosts_of_sites() -> None:
    text = BASE + "hosts: {kind: local, sites: {near: [a], far: [b, c]}, agents: 2}\n"
    run = make_plan(load(text), 1).runs[0]
    assert not run.config.hosts.elsewhere
    names = ["a.1", "b.1", "c.1", "a.2", "b.2", "c.2"]
    assert engine_document(run, WEB, Path("/r"), "x")["workloads"][0]["agents"] == names


def test_plan_prints_hosts_agents_and_testers() -> None:
    text = edited("testers: 1", "testers: 101") + SITES.replace("kind: ssh", "kind: ssh, use: 4, at_least: 3")
    plan = make_plan(load(text), 1)
    host_lines = [line for line in lines(plan, 10) if line.startswith("hosts:")]
    assert host_lines == [
        "hosts: 4 of 5, ssh (cern: c1, c2; lyon: l1, l2), 4 agents; at least 3 needed",
        "hosts: main: 101 testers on 4 agents, 25 to 26 each",
    ]
    assert plan.to_json()["hosts"][0]["testers"] == {"main": {"c1": 26, "c2": 25, "l1": 25, "l2": 25}}
    slurm = BASE + "hosts: {kind: slurm, controller: {address: c}, slurm: {tasks: 3}}\n"
    host_lines = [line for line in lines(make_plan(load(slurm), 1), 10) if line.startswith("hosts:")]
    assert host_lines == ["hosts: 3 agents of kind slurm; at least 3 needed"]


def test_the_effective_file_has_the_same_configuration(tmp_path: Path) -> None:
    text = BASE + SITES.replace("lyon: [l1", "lyon: [{host: l1, link: 10Gbit/s}")
    first = load(text)
    again = load(first.effective_yaml(), directory=tmp_path)
    assert again.cells[0].config == first.cells[0].config


def test_the_name_of_the_watching_agent_is_reserved() -> None:
    text = edited(
        "load: {testers: 1}\n",
        "load: {testers: 1}\nhosts: {kind: ssh, hosts: [lab], controller: {address: 127.0.0.1}}\n",
    )
    assert any("rename the host lab" in line for line in problems(text))


@pytest.mark.parametrize("section", ["before_run", "after_run"])
def test_commands_on_hosts_that_run_none_are_rejected(section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = f"{section}: [{{run: [sync]}}, {{run: [sync], on: all}}]\n"
    load(BASE + SITES + hook)
    join = "hosts: {kind: join, join: {agents: 2}, controller: {address: 10.0.0.1}}\n"
    message = "Plimsoll cannot start a command on hosts of kind"
    advice = "leave `on: all` out, and run the command where the agents are started"
    (found,) = problems(BASE + join + hook)
    assert found.endswith(f"{section}.1.on: {message} join, because their agents dial in: {advice}")
    monkeypatch.setattr(model_hosts, "COMMAND_KINDS", ("local",))
    (found,) = problems(BASE + SITES + hook)
    assert found.endswith(f"{section}.1.on: {message} ssh: {advice}")


def test_commands_run_on_hosts_of_testers_or_of_services_by_name() -> None:
    text = edited("{kind: echo}", "{kind: echo, host: s1}") + (
        "hosts: {kind: ssh, hosts: [t1, {host: s1, agents: 0}, {host: idle, agents: 0}]}\n"
    )
    hook = "before_run: [{run: [sync], on: s1}, {run: [sync], on: [t1, s1, t1]}, {run: [sync], on: all}]\n"
    hooks = load(text + hook).cells[0].config.before_run
    assert [hook.on for hook in hooks] == [("s1",), ("t1", "s1"), "all"]
    assert [hook.where for hook in hooks] == ["on s1", "on t1, s1", "here and on every host"]
    (found,) = problems(text + "after_run: [{run: [sync], on: idle}]\n")
    assert "after_run.0.on: no host with testers or services of the run has the name idle" in found
    assert "(its other hosts: t1, s1)" in found
    (found,) = problems(BASE + "before_run: [{run: [sync], on: hots}]\n")
    assert "(it has no other hosts than this one)" in found
    assert 'did you mean "hosts"?' in found
    (found,) = problems(BASE + "before_run: [{run: [sync], on: 3}]\n")
    assert "before_run.0.on: expected controller, hosts, all, or names of hosts, got 3" in found


def test_the_choice_of_hosts_and_the_version_of_a_server_are_levels() -> None:
    levels = "{near: {cern: [c1]}, far: {lyon: [l1, l2]}}"
    builds = '{old: [server-1, "{port}"], new: [server-2, "{port}"]}'
    text = (
        "plimsoll: 1\n"
        'services: {web: {kind: command, command: [server, "{port}"]}}\n'
        "workload: {driver: http, target: web}\nload: {per_host: 2}\nrun: {duration: 1s}\n"
        "hosts: {kind: ssh, controller: {address: 10.0.0.1}}\n"
        f"factors: {{who: {{path: hosts.sites, levels: {levels}}}, "
        f"build: {{path: services.web.command, levels: {builds}}}}}\n"
    )
    cells = load(text).cells
    found = {
        (cell.labels["who"], cell.labels["build"]): (
            [host.name for host in cell.config.hosts.hosts],
            cell.config.services[0].settings["command"][0],
        )
        for cell in cells
    }
    assert found == {
        ("near", "old"): (["c1"], "server-1"),
        ("near", "new"): (["c1"], "server-2"),
        ("far", "old"): (["l1", "l2"], "server-1"),
        ("far", "new"): (["l1", "l2"], "server-2"),
    }
