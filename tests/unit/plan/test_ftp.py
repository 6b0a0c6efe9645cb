"""The section `ftp` of a workload."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.plan.helpers import load

from plimsoll.errors import BadInput
from plimsoll.plan.model.cell import Config
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.tiers import tiers_of

REST = "run: {duration: 1s}\nload: {testers: 1}\n"


def config(
    section: str, service: str = "", extra: str = "", environ: Mapping[str, str] | None = None
) -> Config:
    text = f"""
plimsoll: 1
services: {{store: {{kind: gridftp{service}}}}}
workload: {{driver: ftp, target: store, ftp: {{{section}}}{extra}}}
{REST}"""
    (cell,) = load(text, environ=environ).cells
    return cell.config


def test_every_key_has_a_value_for_the_engine() -> None:
    (work,) = config("path: /f0").workloads
    assert work.settings == {
        "connection": "kept",
        "login": {"user": "anonymous", "password": "plimsoll@"},
    }
    (operation,) = work.operations
    assert (operation.name, operation.request) == (
        "download",
        {
            "path": "/f0",
            "transfer": "download",
            "size": None,
            "part": None,
            "mode": "stream",
            "streams": 1,
            "verify": None,
            "expect_bytes": None,
        },
    )


def test_entries_of_a_mix_replace_the_keys_of_a_transfer() -> None:
    (work,) = config(
        'streams: 4, login: {user: me, password: {secret: "${env:PW}"}}',
        extra=", mix: [{name: read, path: /f0, part: {offset: 5MB, length: 1kB}},"
        " {name: write, path: /up, transfer: upload, size: 1MB, mode: extended, streams: 1, verify: md5}]",
        environ={"PW": "secret word"},
    ).workloads
    assert work.settings["login"] == {"user": "me", "password": Secret("secret word")}
    read, write = (operation.request for operation in work.operations)
    assert (read["mode"], read["streams"], read["part"]) == (
        "extended",
        4,
        {"offset": 5_000_000, "length": 1000},
    )
    assert (write["mode"], write["streams"], write["size"]) == ("extended", 1, 1_000_000)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("mode: stream, streams: 2", "2 streams need mode: extended"),
        ("streams: 65", "streams"),
        ("transfer: upload", "an upload needs the size of its content"),
        ("transfer: upload, size: 1MB, part: {length: 1kB}", "part applies to downloads"),
        ("transfer: upload, size: 1MB, expect_bytes: 1MB", "expect_bytes applies to downloads"),
        ("size: 1MB", "size is that of an upload"),
        ("streams: 2, verify: md5", "md5 needs the bytes in their order"),
        ('path: "/a\\r\\nDELE b"', "the path contains a line end"),
        ("part: {offset: 1kB}", "length"),
        ("login: {user: me, password: secret}", "the file contains the password"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(section: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        config(section)
    assert message in str(refused.value)


def test_a_server_that_requires_gsi_is_refused() -> None:
    with pytest.raises(BadInput, match="speaks gsiftp; the driver needs ftp"):
        config("path: /f0", ", security: gsi")


def test_transfers_are_compared_with_those_that_the_server_counts() -> None:
    (tier,) = tiers_of(config("path: /f0"))
    assert (tier.service, tier.counter, [part.workload for part in tier.testers]) == (
        "store",
        "transfers",
        ["main"],
    )
    assert tier.sent_bytes is not None
    (tier,) = tiers_of(config("transfer: upload, size: 1MB"))
    assert tier.sent_bytes is None, "the payload contains bytes that the server receives"
