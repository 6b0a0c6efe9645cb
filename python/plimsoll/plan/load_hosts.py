"""The hosts of a file, without the rest of the experiment: for `plimsoll hosts`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.experiment import load_experiment
from plimsoll.plan.hosts.hosts_file import SECTION, hosts_document
from plimsoll.plan.hosts.lookouts import lookouts, required
from plimsoll.plan.hosts.resolve import resolve_hosts, testers_of
from plimsoll.plan.hosts.spread import fewest
from plimsoll.plan.model.cell import Config
from plimsoll.plan.model.hosts import Host, Hosts
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.hosts import HostsRaw
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import MAX_TEXT, Document, parse_document
from plimsoll.plan.source.expand import expand


def load_hosts(
    path: str | Path, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[Hosts, ...]:
    """The hosts of an experiment file or of a hosts file. If the cells of an experiment have different hosts, each
    variant is one entry, without `use` and with the greatest `at_least` of its cells. Raises BadInput."""
    return load_all_hosts(path, sets, environ).testers


@dataclass(frozen=True, slots=True)
class AllHosts:
    """`testers`: where testers run; `services`: hosts that run services, or only services; `watched`: hosts of targets;
    `required`: names of the watched hosts that must respond; `kinds`: kinds of the services on each host, by its
    name; `limits`: what is limited there; `perf`: names of those on which perf takes samples of services;
    `tester_limits`: what is limited of testers, by the name of their host."""

    testers: tuple[Hosts, ...]
    watched: tuple[Hosts, ...] = ()
    required: frozenset[str] = frozenset()
    services: tuple[Hosts, ...] = ()
    kinds: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    perf: frozenset[str] = frozenset()
    tester_limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load_all_hosts(
    path: str | Path, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> AllHosts:
    """Like `load_hosts`, with the watched hosts of the experiment."""
    name, file = str(path), Path(path)
    environment = os.environ if environ is None else environ
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput([Problem(f"the file cannot be read: {reason}", file=name)]) from None
    document = parse_document(text, name)
    if isinstance(document.data, Mapping) and "plimsoll" in document.data:
        experiment = load_experiment(path, sets, environment)
        configs = [cell.config for cell in experiment.cells]
        watched = (hosts for config in configs for hosts in lookouts(config))
        return AllHosts(
            _distinct_hosts(configs),
            tuple(dict.fromkeys(watched)),
            required(configs),
            _hosts_of_services(configs),
            _kinds_of_services(configs),
            _limits_of_services(configs),
            frozenset(
                service.host
                for config in configs
                for service in config.services
                if service.perf and service.host is not None
            ),
            limits_of_testers(config.hosts for config in configs),
        )
    if sets:
        raise BadInput("--set applies to an experiment file, and this is a hosts file")
    part = hosts_document(text, name, file.absolute().parent, file.absolute().parent)
    whole = _resolve_section(part, file.absolute().parent, environment)
    idle = tuple(replace(host, agents=1) for host in whole.hosts if not host.agents)
    testers = testers_of(whole)
    return AllHosts(
        (testers.without_limits(),),
        services=(replace(whole, hosts=idle, link="ssh"),) if idle else (),
        tester_limits=limits_of_testers([testers]),
    )


def _hosts_of_services(configs: Sequence[Config]) -> tuple[Hosts, ...]:
    """Every way to reach hosts of services once, with all hosts that are reached in this way."""
    found: dict[Hosts, dict[Host, None]] = {}
    for hosts in (config.service_hosts for config in configs):
        if hosts is not None:
            found.setdefault(replace(hosts, hosts=()), {}).update(dict.fromkeys(hosts.hosts))
    return tuple(replace(way, hosts=tuple(hosts)) for way, hosts in found.items())


def _kinds_of_services(configs: Sequence[Config]) -> dict[str, frozenset[str]]:
    kinds: dict[str, set[str]] = {}
    for service in (service for config in configs for service in config.services):
        if service.host is not None:
            kinds.setdefault(service.host, set()).add(service.kind)
    return {host: frozenset(names) for host, names in kinds.items()}


def _limits_of_services(configs: Sequence[Config]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for service in (service for config in configs for service in config.services):
        if service.host is not None:
            found.setdefault(service.host, set()).update(service.limits.to_json())
    return {host: tuple(sorted(names)) for host, names in found.items()}


def limits_of_testers(variants: Iterable[Hosts]) -> dict[str, tuple[str, ...]]:
    """What is limited of testers in any of these variants of `hosts:`, by the name of their host."""
    found: dict[str, set[str]] = {}
    for hosts in variants:
        for host, limits in hosts.limits_by_host.items():
            found.setdefault(host, set()).update(limits.to_json())
    return {host: tuple(sorted(names)) for host, names in found.items()}


def _distinct_hosts(configs: Sequence[Config]) -> tuple[Hosts, ...]:
    """Every list of hosts once. `at_least` is the maximum of all cells with this list."""
    needs: dict[Hosts, int] = {}
    for config in configs:
        plain = replace(config.hosts.without_limits(), use=None, at_least=None)
        needs[plain] = max(needs.get(plain, 0), fewest(config.hosts))
    return tuple(replace(plain, at_least=need) for plain, need in needs.items())


def _resolve_section(part: Document, directory: Path, environ: Mapping[str, str]) -> Hosts:
    document = Document({"hosts": part.data}, part.name, part.text, {}, {SECTION: part})
    expanded = expand(document.data, environ)
    context = ResolveContext(Origins(document), expanded.written, directory)
    for path, message in expanded.wrong:
        context.wrong(path, message)
    hosts = None
    try:
        hosts = resolve_hosts(HostsRaw.model_validate(expanded.tree["hosts"]), context)
    except ValidationError as error:
        context.problems += translate(
            error, expanded.tree["hosts"], context.origins, expanded.written, HostsRaw, SECTION
        )
    if hosts is None or context.problems:
        raise BadInput(context.problems)
    return hosts
