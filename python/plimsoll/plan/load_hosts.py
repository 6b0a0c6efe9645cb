"""The hosts that a file names, without the experiment: for `plimsoll hosts`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.experiment import load_experiment
from plimsoll.plan.hosts.hosts_file import SECTION, hosts_document
from plimsoll.plan.hosts.lookouts import lookouts, required
from plimsoll.plan.hosts.resolve import resolve_hosts
from plimsoll.plan.hosts.spread import fewest
from plimsoll.plan.model import Config
from plimsoll.plan.model_hosts import Hosts
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.hosts import HostsRaw
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import MAX_TEXT, Document, parse_document
from plimsoll.plan.source.expand import expand


def load_hosts(
    path: str | Path, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[Hosts, ...]:
    """The hosts of an experiment file, or of a file of hosts: one entry, or one for each way in which the cells of an
    experiment differ in them, without `use`, and with the greatest `at_least` of all. Raises BadInput."""
    return load_all_hosts(path, sets, environ).testers


@dataclass(frozen=True, slots=True)
class AllHosts:
    """`testers`: where testers run; `watched`: hosts of targets, of which those in `required` must be had."""

    testers: tuple[Hosts, ...]
    watched: tuple[Hosts, ...] = ()
    required: frozenset[str] = frozenset()


def load_all_hosts(
    path: str | Path, sets: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> AllHosts:
    """As `load_hosts`, with the hosts that an experiment watches."""
    name, file = str(path), Path(path)
    around = os.environ if environ is None else environ
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput([Problem(f"the file cannot be read: {why}", file=name)]) from None
    document = parse_document(text, name)
    if isinstance(document.data, Mapping) and "plimsoll" in document.data:
        experiment = load_experiment(path, sets, around)
        configs = [cell.config for cell in experiment.cells]
        watched = (one for config in configs for one in lookouts(config))
        return AllHosts(_each(configs), tuple(dict.fromkeys(watched)), required(configs))
    if sets:
        raise BadInput("--set applies to an experiment file, and this is a hosts file")
    part = hosts_document(text, name, file.absolute().parent, file.absolute().parent)
    return AllHosts((_resolved(part, file.absolute().parent, around),))


def _each(configs: Sequence[Config]) -> tuple[Hosts, ...]:
    """Every list of hosts once, with as many as the most demanding of its cells needs."""
    needs: dict[Hosts, int] = {}
    for config in configs:
        whole = replace(config.hosts, use=None, at_least=None)
        needs[whole] = max(needs.get(whole, 0), fewest(config.hosts))
    return tuple(replace(whole, at_least=need) for whole, need in needs.items())


def _resolved(part: Document, directory: Path, environ: Mapping[str, str]) -> Hosts:
    whole = Document({"hosts": part.data}, part.name, part.text, {}, {SECTION: part})
    expanded = expand(whole.data, environ)
    context = ResolveContext(Origins(whole), expanded.written, directory)
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
