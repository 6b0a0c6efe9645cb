"""CPU that processes outside the experiment used on a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.cpu_series import HostCpu
from plimsoll.analyse.results.run import ComponentResources

Array = NDArray[np.float64]


def outside_shares(host: HostCpu) -> Array | None:
    """Share of all cores that processes outside the experiment used, at least, by second. Interrupts and the
    hypervisor's share are subtracted, because they belong to no process.

    None if it is not known which processes are outside: on the host of the lab without a service or a watched process,
    the target may be one of them.
    """
    if host.outside is None or not (host.components or host.only_testers):
        return None
    shares = host.outside if host.interrupts is None else host.outside - host.interrupts
    known: Array = shares[np.isfinite(shares)]
    return known if known.size else None


def with_outside_cpu(
    components: Sequence[ComponentResources], hosts: Sequence[HostCpu]
) -> tuple[ComponentResources, ...]:
    """The components, the hosts among them with the CPU that processes outside the experiment used."""
    shares = {host.component: values for host in hosts if (values := outside_shares(host)) is not None}
    return tuple(
        replace(
            entry, kernel=replace(entry.kernel, outside_cpu=max(0.0, float(shares[entry.component].mean())))
        )
        if entry.component in shares and entry.kernel is not None
        else entry
        for entry in components
    )
