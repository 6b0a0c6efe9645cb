"""The configuration files of a Tomcat, as texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from plimsoll.deploy.counters.tomcat import QUERIES

CONNECTOR: Final = {"connectionTimeout": "20000"}
"""Attributes as in Tomcat's own server.xml, which the file may replace."""
LOADER: Final = ",".join(
    f'"${{{place}}}/lib{files}"' for place in ("catalina.base", "catalina.home") for files in ("", "/*.jar")
)
TYPES: Final = {
    **{"html": "text/html", "css": "text/css", "js": "text/javascript", "txt": "text/plain"},
    **{"xml": "application/xml", "json": "application/json", "svg": "image/svg+xml", "png": "image/png"},
}
LOGGING: Final = (
    "handlers = java.util.logging.ConsoleHandler\n"
    ".handlers = java.util.logging.ConsoleHandler\n"
    "java.util.logging.ConsoleHandler.formatter = org.apache.juli.OneLineFormatter\n"
)
_MIME_TYPES: Final = "".join(
    f"  <mime-mapping><extension>{name}</extension><mime-type>{kind}</mime-type></mime-mapping>\n"
    for name, kind in TYPES.items()
)
SCAN: Final = {
    "tomcat.util.scan.StandardJarScanFilter.jarsToSkip": "catalina*.jar,tomcat*.jar,jasper*.jar,jaspic-api.jar,"
    "servlet-api.jar,jsp-api.jar,el-api.jar,annotations-api.jar,websocket*.jar,bootstrap.jar,ecj*.jar"
}
"""Tomcat's own libraries, which contain no servlets: a start that searches them takes longer."""
WEB_XML: Final = f"""<web-app>
  <servlet>
    <servlet-name>default</servlet-name>
    <servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
    <load-on-startup>1</load-on-startup>
  </servlet>
  <servlet>
    <servlet-name>jsp</servlet-name>
    <servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class>
    <load-on-startup>3</load-on-startup>
  </servlet>
  <servlet-mapping><servlet-name>default</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
  <servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping>
{_MIME_TYPES}  <welcome-file-list>
    <welcome-file>index.html</welcome-file>
    <welcome-file>index.jsp</welcome-file>
  </welcome-file-list>
</web-app>
"""
"""The defaults of web applications, those of Tomcat's own web.xml in short: Debian's package does not contain it."""
STATUS_XML: Final = """<web-app metadata-complete="true">
  <servlet>
    <servlet-name>status</servlet-name>
    <servlet-class>org.apache.catalina.manager.StatusManagerServlet</servlet-class>
  </servlet>
  <servlet>
    <servlet-name>beans</servlet-name>
    <servlet-class>org.apache.catalina.manager.JMXProxyServlet</servlet-class>
  </servlet>
  <servlet-mapping><servlet-name>status</servlet-name><url-pattern>/*</url-pattern></servlet-mapping>
  <servlet-mapping><servlet-name>beans</servlet-name><url-pattern>/beans</url-pattern></servlet-mapping>
</web-app>
"""
"""The status page of Tomcat's manager, and its view of the JVM's beans. `STATUS_RULES` admits two queries of them.

The beans have what the status page lacks: the times of garbage collections and the number of open connections. Both are
read by HTTP, so it is the same on other hosts and for every version of Java. Rejected: the log of the collector, whose
option and format depend on the version of Java, and which must be fetched from another host; /proc/net/tcp, which also
lists connections that Tomcat has not accepted; a JMX port, which has its own protocol and needs a Java client.
"""
STATUS_RULES: Final = (
    "".join(f"RewriteCond %{{QUERY_STRING}} !^{re.escape(query)}$\n" for query in QUERIES.values())
    + "RewriteRule .* - [F]\n"
)
"""Refuses all other queries: the view of the beans could also set attributes and call operations."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of one Tomcat. `home`: the installed program; `base`: its own files."""

    home: PurePath
    base: PurePath

    @property
    def status(self) -> PurePath:
        """The web application with the counters."""
        return self.base / "status"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where it listens, as address and port. `administrators`: the addresses that may read the counters; empty: all
    that reach the address, for loopback."""

    clients: tuple[str, int]
    status: tuple[str, int]
    administrators: tuple[str, ...] = ()


def server_xml(settings: Mapping[str, Any], layout: Layout, addresses: Addresses) -> str:
    """The whole server.xml. The counters have a port of their own, whose requests the other one does not count."""
    address, port = addresses.clients
    requests = settings["max_keep_alive_requests"] if settings["keep_alive"] else 1
    connector = {
        "address": address,
        "port": port,
        "protocol": "HTTP/1.1",
        "maxThreads": settings["threads"],
        "maxConnections": settings["connections"],
        "maxKeepAliveRequests": -1 if requests == "unlimited" else requests,
        "keepAliveTimeout": max(1, settings["keep_alive_timeout"] // 1_000_000),
        **CONNECTOR,
        **settings["settings"],
    }
    status = {
        "address": addresses.status[0],
        "port": addresses.status[1],
        "protocol": "HTTP/1.1",
        "maxThreads": 2,
        "minSpareThreads": 1,
        "maxKeepAliveRequests": -1,
    }
    valves = []
    if settings["log"]:
        valves.append(
            element(
                "Valve",
                {
                    "className": "org.apache.catalina.valves.AccessLogValve",
                    "directory": layout.base / "logs",
                    "prefix": "access",
                    "suffix": ".log",
                    "rotatable": "false",
                    "buffered": "false",  # a line belongs to the run in which it was written
                    "pattern": '%h %l %u %t "%r" %s %b %D',
                },
            )
        )
    allowed = ",".join(addresses.administrators)
    reject = element("Valve", {"className": "org.apache.catalina.valves.rewrite.RewriteValve"})
    valve = {"className": "org.apache.catalina.valves.RemoteCIDRValve", "allow": allowed}
    context = {"path": "", "docBase": layout.status, "privileged": "true"}
    return f"""<Server port="-1">
  <Service name="Catalina">
    {element("Connector", connector)}
    <Engine name="Catalina" defaultHost="localhost">
      <Host name="localhost" appBase="webapps" autoDeploy="false">{"".join(valves)}</Host>
    </Engine>
  </Service>
  <Service name="Counters">
    {element("Connector", status)}
    <Engine name="Counters" defaultHost="localhost">
      <Host name="localhost" appBase="counters" autoDeploy="false" deployOnStartup="false">
        {element("Context", context, (element("Valve", valve) if allowed else "") + reject)}
      </Host>
    </Engine>
  </Service>
</Server>
"""


def context_xml(resources: Sequence[str]) -> str:
    """What the web application gets in addition to its own META-INF/context.xml."""
    lines = "".join(f"  {line}\n" for line in resources)
    return f"<Context>\n{lines}</Context>\n"


def element(name: str, attributes: Mapping[str, object], content: str = "") -> str:
    """An XML element."""
    head = " ".join([name, *(f"{key}={quoteattr(str(value))}" for key, value in attributes.items())])
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def properties_text(properties: Mapping[str, str]) -> str:
    """A file of Java properties, which Tomcat makes system properties."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    """Java reads Latin-1, escapes of UTF-16 units, and a value without its leading spaces."""
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if 0x20 < code < 0x7F and chr(code) != "\\" else f"\\u{code:04x}" for code in codes
    )
