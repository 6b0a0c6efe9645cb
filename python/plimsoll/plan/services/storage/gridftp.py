"""The service kind `gridftp`."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import SentBytes, ServiceAdditions, Services
from plimsoll.plan.services.server_settings import ServerSettings, check_settings
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.services.storage.files import FilesRaw
from plimsoll.plan.source.fields import Count
from plimsoll.plan.source.units import NS

RESERVED: Final = frozenset(
    {
        *("port", "control_interface", "data_interface", "hostname", "detach", "inetd", "daemon", "single"),
        *("allow_anonymous", "anonymous_user", "allow_disabled_login", "restrict_paths", "connections_max"),
        *("log_single", "log_unique", "log_transfer", "log_level", "pidfile", "exec", "config"),
    }
)
"""Options of the server that other keys or the lab set."""


class GridftpService(StatelessSection):
    """A GridFTP server of the Globus (Grid Community) Toolkit with files of its own."""

    kind: Literal["gridftp"]
    security: Literal["anonymous", "gsi"] = "anonymous"
    files: FilesRaw | None = None
    connections: Count | None = None
    settings: ServerSettings = Field(default_factory=dict)

    start_ns: ClassVar[int] = 2 * NS["s"]
    request_counter: ClassVar[str | None] = "transfers"
    arrival_counter: ClassVar[str | None] = "transfers"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("bytes_sent", 1, "payload")
    main_counters: ClassVar[tuple[str, ...]] = ("transfers", "downloads", "uploads", "failed")

    @property
    def makes_credentials(self) -> bool:
        return self.security == "gsi"

    def scheme(self) -> str:
        return "gsiftp" if self.security == "gsi" else "ftp"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        check_settings(self.settings, RESERVED, ("services", name, "settings"), context)
        return ServiceAdditions()
