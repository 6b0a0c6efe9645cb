"""Whether the limits of testers hold on their hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plimsoll.deploy.hosts import HostBackend, ReadyHost
from plimsoll.deploy.hosts.check import CheckedHost
from plimsoll.deploy.limits import LimitProof


def with_proofs(
    kind: HostBackend,
    ready: Sequence[ReadyHost],
    checked: Sequence[CheckedHost],
    limits: Mapping[str, Sequence[str]],
    proofs: dict[str, LimitProof],
) -> list[CheckedHost]:
    """Adds to each host that can be used whether limits hold there: otherwise it is left out. `limits`: names of the
    limits, by the name of the host; `proofs`: those of earlier calls, to which new ones are added."""
    usable = {one.host.name for one in checked if one.taken}
    by_resources: dict[tuple[str, ...], list[ReadyHost]] = {}
    for ready_host in ready:
        resources = tuple(limits.get(ready_host.host.name, ()))
        if resources and ready_host.host.name in usable - proofs.keys():
            by_resources.setdefault(resources, []).append(ready_host)
    for resources, hosts in by_resources.items():
        names = [ready_host.host.name for ready_host in hosts]
        proofs.update(zip(names, kind.prove_limits(hosts, resources), strict=True))
    return [
        one
        if not one.taken or (proof := proofs.get(one.host.name)) is None
        else replace(one, reason=proof.text(), remarks=(*one.remarks, *proof.remarks))
        for one in checked
    ]
