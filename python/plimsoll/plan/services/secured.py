"""Services of the engine that can require TLS with client certificates, or grid proxies of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Target
from plimsoll.plan.services.section import Services, ServiceSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText

FILES: Final = ("cert_file", "key_file", "ca_file")


class SecuredSection(ServiceSection):
    """`security: tls` requires TLS. Without files, an authority and certificates are made at each start."""

    security: Literal["none", "tls"] = "none"
    cert_file: PlainText | None = None
    key_file: PlainText | None = None
    ca_file: PlainText | None = None

    @property
    def makes_credentials(self) -> bool:
        return self.security == "tls" and self.cert_file is None

    def files(self, at: KeyPath, context: Context) -> dict[str, str]:
        """The absolute paths of the files by key. Reports files that are missing or not used. `at`: path of the
        section."""
        found = {}
        has_files = any(getattr(self, key) is not None for key in FILES)
        for key in FILES:
            file = getattr(self, key)
            if has_files and self.security == "tls" and file is None:
                context.wrong((*at, key), f"give {', '.join(FILES)}, or none of them")
            elif self.security == "none" and file is not None:
                context.wrong((*at, key), "is used only with `security: tls`")
            elif file is not None:
                found[key] = context.file(file, (*at, key))
        return found


def secured_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the engine, from the settings of a service."""
    return {key: settings[key] for key in ("security", *FILES)}


def check_made_certificates(target: Target, sections: Services, at: KeyPath, context: Context) -> None:
    """Reports endpoints of the driver `http` whose service makes the certificates of its clients: this driver does not
    have them. `at`: path of the target."""
    for endpoint in target.endpoints:
        section = sections.get(endpoint.service or "")
        if isinstance(section, SecuredSection) and section.makes_credentials and section.scheme() == "https":
            context.wrong(
                at,
                f"the driver http does not have the client certificates that {endpoint.service} makes: give the "
                f"service {', '.join(FILES)}, and the workload http.tls; or use the driver broker",
            )
