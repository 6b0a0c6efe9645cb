"""What GridFTP and XRootD are started with, and what is counted from their logs and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.counters.logs.gridftp import TransferCounters
from plimsoll.deploy.counters.storage import xrootd as xrootd_counters
from plimsoll.deploy.programs import VARIABLE
from plimsoll.deploy.servers.needs import missing_programs
from plimsoll.deploy.servers.storage import gridftp, xrootd

LINE = (
    "DATE=20261128041028.839563 HOST=vm PROG=globus-gridftp-server NL.EVNT=FTP_INFO START=20261128041028.837504 "
    "USER=anonymous FILE=/w/a b TYPE=X/up1 BUFFER=3939840 BLOCK=262144 NBYTES={} VOLUME=/ STREAMS=1 STRIPES=1 "
    "DEST=[127.0.0.1] TYPE={} CODE={} TASKID=none{}\n"
)
STATISTICS = b"""<statistics tod="1795839032" ver="v5.5.3" src="vm:21094" tos="1795839029" pgm="xrootd" ins="solo"
 pid="10865" site=""><stats id="info"><host>vm</host><port>21094</port><name>solo</name></stats><stats id="link">
<num>3</num><maxn>1</maxn><tot>9</tot><in>1002854</in><out>6006649</out><ctime>0</ctime></stats><stats id="xrootd">
<num>9</num><ops><open>9</open><rf>0</rf><rd>7</rd><wr>1</wr><misc>22</misc></ops><err>2</err><rdr>5</rdr><dly>0</dly>
<lgn><num>7</num><af>0</af><au>0</au><ua>7</ua></lgn></stats></statistics>\0"""
GRIDFTP: dict[str, Any] = {"security": "anonymous", "connections": 50, "settings": {"banner": "hi"}}
XROOTD: dict[str, Any] = {"role": "server", "lookup": None, "settings": ["xrd.trace all"]}
PORTS = (1094, 1213)


def test_transfers_are_counted_by_direction_when_their_line_is_complete() -> None:
    log = "".join(
        [
            LINE.format(1000, "RETR", 226, " retrans=0,0"),
            LINE.format(50, "ERET", 226, ""),
            LINE.format(2000, "STOR", 226, ""),
            LINE.format(700, "RETR", 426, ""),
            LINE.format(90, "MLSD", 226, ""),
            "a line of another form\n",
        ]
    ).encode()
    reader = TransferCounters(lambda offset: seen[offset : offset + 400], 0)
    seen = log[:-300]
    reader.read()
    seen = log
    assert reader.read().counters == {
        "transfers": 4,
        "downloads": 2,
        "uploads": 1,
        "bytes_sent": 1050,
        "bytes_received": 2000,
        "failed": 1,
    }
    later = TransferCounters(
        lambda offset: seen[offset:], len(LINE.format(1000, "RETR", 226, " retrans=0,0"))
    )
    assert later.read().counters["bytes_sent"] == 50, "a restarted server counts from zero"


def test_statistics_of_xrootd_lack_the_connection_of_the_reader() -> None:
    reading = xrootd_counters.reading(STATISTICS)
    assert reading.counters == {
        "connections": 8,
        "bytes_in": 1002854,
        "bytes_out": 6006649,
        "logins": 6,
        "opens": 9,
        "reads": 7,
        "writes": 1,
        "redirects": 5,
        "errors": 2,
    }
    assert reading.gauges == {"connected": 2}
    with pytest.raises(ValueError, match="is not XRootD's statistics"):
        xrootd_counters.reading(b"HTTP/1.1 400")
    with pytest.raises(ValueError, match="lack link/tot"):
        xrootd_counters.reading(b"<statistics/>")


def test_gridftp_serves_only_its_files_and_only_at_its_address() -> None:
    layout = gridftp.Layout("10.0.0.2", 2811, "10.0.0.2", "nobody", Path("/w"))
    lines = gridftp.configuration(GRIDFTP, layout).splitlines()
    assert {'control_interface "10.0.0.2"', 'data_interface "10.0.0.2"', 'port "2811"'} <= {*lines}
    assert {'restrict_paths "/w/files"', 'log_transfer "/w/transfers.log"'} <= {*lines}
    assert {'anonymous_user "nobody"', 'connections_max "50"', 'banner "hi"'} <= {*lines}
    secured = gridftp.configuration({**GRIDFTP, "security": "gsi", "connections": None}, layout)
    assert 'hostname "10.0.0.2"' in secured
    assert "anonymous" not in secured
    assert "connections_max" not in secured


def test_a_lone_xrootd_has_no_cluster_and_a_redirector_no_files() -> None:
    alone = xrootd.configuration(XROOTD, xrootd.Layout(Path("/w"), *PORTS)).splitlines()
    assert {"xrd.port 1094 if exec xrootd", "oss.localroot /w", "all.export /data"} <= {*alone}
    assert not [line for line in alone if line.startswith(("cms.", "all.role", "all.manager"))]
    assert alone[-1] == "xrd.trace all"
    manager = ("10.0.0.2", 1213)
    layout = xrootd.Layout(Path("/w"), *PORTS, manager)
    head = xrootd.configuration(
        {**XROOTD, "role": "redirector", "lookup": 5_000_000_000}, layout
    ).splitlines()
    assert {"all.role manager", "all.manager 10.0.0.2:1213", "xrd.port 1213 if exec cmsd"} <= {*head}
    assert "cms.delay startup 1 servers 1 lookup 5" in head
    assert "oss.localroot /w" not in head
    data = xrootd.configuration(XROOTD, layout).splitlines()
    assert {"all.role server", "all.manager 10.0.0.2:1213", "xrd.port any if exec cmsd"} <= {*data}


def test_missing_programs_are_reported_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    texts = "\n".join(missing_programs({"gridftp", "xrootd"}))
    assert "apt-get install globus-gridftp-server-progs" in texts
    assert "apt-get install xrootd-server xrootd-server-plugins" in texts
    assert "apt-get install openssl" in texts
