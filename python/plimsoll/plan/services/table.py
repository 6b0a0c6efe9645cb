"""The kinds of services, each from its own file; the only list of them in the lab.

`deploy/servers/table.py` has a start for each kind. A test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Union

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from plimsoll.plan.services.command import CommandService
from plimsoll.plan.services.databases.mariadb import MariadbService
from plimsoll.plan.services.databases.postgres import PostgresService
from plimsoll.plan.services.databases.sqlite import SqliteService
from plimsoll.plan.services.delay import DelayService
from plimsoll.plan.services.echo import EchoService
from plimsoll.plan.services.frontier import FrontierService
from plimsoll.plan.services.jobs.broker import BrokerService, GridService
from plimsoll.plan.services.jobs.gram import GramService
from plimsoll.plan.services.jobs.slurm import SlurmService
from plimsoll.plan.services.nginx import NginxService
from plimsoll.plan.services.null import NullService
from plimsoll.plan.services.section import ServiceSection, kind_of
from plimsoll.plan.services.slapd import SlapdService
from plimsoll.plan.services.squid import SquidService
from plimsoll.plan.services.storage.catalogue import CatalogueService
from plimsoll.plan.services.storage.gridftp import GridftpService
from plimsoll.plan.services.storage.rucio import RucioService
from plimsoll.plan.services.storage.xrootd import XrootdService
from plimsoll.plan.services.tomcat import TomcatService
from plimsoll.plan.source.fields import null_word, shown

_SECTIONS: Final[tuple[type[ServiceSection], ...]] = (
    BrokerService,
    CatalogueService,
    CommandService,
    DelayService,
    EchoService,
    FrontierService,
    GramService,
    GridService,
    GridftpService,
    MariadbService,
    NginxService,
    NullService,
    PostgresService,
    RucioService,
    SlapdService,
    SlurmService,
    SqliteService,
    SquidService,
    TomcatService,
    XrootdService,
)
SERVICE_KINDS: Final = {kind_of(section): section for section in _SECTIONS}
"""The section of each kind, by its name."""
LATER_KINDS: Final = ("mysql", "varnish")
"""Kinds of a later version. Their names are refused with a message of their own."""


def _known_kind(value: object) -> object:
    """Runs before the section is chosen: a kind of a later version is not an unknown kind."""
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "service", "expected a mapping with `kind`, got {shown}", {"shown": shown(value)}
        )
    if "kind" in value:
        value = {**value, "kind": null_word(value["kind"])}
    kind = value.get("kind")
    if isinstance(kind, str) and kind in LATER_KINDS:
        raise PydanticCustomError(
            "later",
            "the service kind {kind} is not available in this version: expected one of {known}",
            {"kind": kind, "known": ", ".join(SERVICE_KINDS), "key": "kind"},
        )
    return value


if TYPE_CHECKING:
    AnyService = ServiceSection
else:
    # The union is made from the list above, so that no second list exists.
    AnyService = Annotated[
        Annotated[Union[_SECTIONS], Field(discriminator="kind")],  # noqa: UP007
        BeforeValidator(_known_kind),
    ]
