"""A generated grid site in the GLUE schema 1.3, as a BDII serves it.

Below `Mds-Vo-name=site,o=grid` there is one entry for each computing element, `GlueCEUniqueID=ce-1` to `ce-N`. Each
has about 1 kB, and admits three of eight virtual organisations. The same seed makes the same site everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

SUFFIX: Final = "o=grid"
SITE: Final = f"Mds-Vo-name=site,{SUFFIX}"
ORGANISATIONS: Final = 8
ADMITTED: Final = 3
_CLASSES: Final = (
    *("GlueCETop", "GlueCE", "GlueCEInfo", "GlueCEState", "GlueCEPolicy", "GlueCEAccessControlBase"),
    *("GlueKey", "GlueSchemaVersion"),
)
_CONTAINERS: Final = f"""dn: {SUFFIX}
objectClass: organization
o: grid

dn: {SITE}
objectClass: Mds
Mds-Vo-name: site

"""


def ldif(entries: int, seed: int) -> str:
    """The site as LDIF (RFC 2849), with `entries` computing elements and two containers."""
    draw = random.Random(seed)
    return _CONTAINERS + "".join(
        "\n".join(_computing_element(n, draw)) + "\n\n" for n in range(1, entries + 1)
    )


def _computing_element(number: int, draw: random.Random) -> Iterator[str]:
    name, host = f"ce-{number}", f"ce-{number}.site.example"
    cpus, running, waiting = draw.randrange(8, 4096), draw.randrange(2000), draw.randrange(2000)
    yield f"dn: GlueCEUniqueID={name},{SITE}"
    yield from (f"objectClass: {each}" for each in _CLASSES)
    yield from (
        "GlueSchemaVersionMajor: 1",
        "GlueSchemaVersionMinor: 3",
        f"GlueCEUniqueID: {name}",
        f"GlueCEName: {draw.choice(('short', 'medium', 'long'))}",
        f"GlueCEInfoHostName: {host}",
        f"GlueCEInfoContactString: {host}:2119/jobmanager-slurm",
        "GlueCEInfoGatekeeperPort: 2119",
        "GlueCEInfoJobManager: slurm",
        "GlueCEInfoLRMSType: slurm",
        f"GlueCEInfoLRMSVersion: {draw.randrange(20, 24)}.{draw.randrange(1, 12):02}",
        f"GlueCEInfoTotalCPUs: {cpus}",
        f"GlueCEInfoDefaultSE: se-{draw.randrange(1, 10)}.site.example",
        "GlueCEStateStatus: Production",
        f"GlueCEStateRunningJobs: {running}",
        f"GlueCEStateWaitingJobs: {waiting}",
        f"GlueCEStateTotalJobs: {running + waiting}",
        f"GlueCEStateFreeJobSlots: {max(0, cpus - running)}",
        f"GlueCEStateEstimatedResponseTime: {draw.randrange(86_400)}",
        f"GlueCEStateWorstResponseTime: {draw.randrange(86_400, 604_800)}",
        "GlueCEPolicyMaxWallClockTime: 4320",
        "GlueCEPolicyMaxCPUTime: 2880",
        f"GlueCEPolicyMaxRunningJobs: {cpus}",
        f"GlueForeignKey: GlueClusterUniqueID={host}",
    )
    admitted = sorted(draw.sample(range(1, ORGANISATIONS + 1), ADMITTED))
    yield from (f"GlueCEAccessControlBaseRule: VO:vo{organisation}" for organisation in admitted)
