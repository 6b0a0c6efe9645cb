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
            "paths": ["/f0"],
            "transfer": "download",
            "size": None,
            "part": None,
            "restart_at": None,
            "mode": "stream",
            "streams": 1,
            "stripes": None,
            "data": "per-file",
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


def test_pipelined_files_have_the_numbers_of_their_paths() -> None:
    found = config('path: "/d{file}/f{i}", pipeline: 3', extra=", values: {file: {uniform: [0, 9]}}")
    (work,) = found.workloads
    (operation,) = work.operations
    assert operation.request["paths"] == ["/d{file}/f0", "/d{file}/f1", "/d{file}/f2"]
    assert operation.request["mode"] == "extended"
    assert not work.warnings
    (tier,) = tiers_of(found)
    assert [part.each for part in tier.testers] == [3]
    mixed = config("path: /f", extra=", mix: [{name: one}, {name: two, pipeline: 2}]")
    assert not tiers_of(mixed), "the number of files of a transaction is not known"


def test_a_part_of_an_upload_and_a_restart_have_their_keys() -> None:
    (work,) = config(
        "path: /f",
        extra=", mix: [{name: part, transfer: upload, part: {offset: 1MB, length: 2MB}},"
        " {name: rest, restart_at: 1MB, data: kept}, {name: striped, transfer: upload, size: 1MB, stripes: 2}]",
    ).workloads
    part, rest, striped = (operation.request for operation in work.operations)
    assert (part["part"], part["size"]) == ({"offset": 1_000_000, "length": 2_000_000}, None)
    assert (rest["restart_at"], rest["data"], rest["mode"]) == (1_000_000, "kept", "extended")
    assert (striped["stripes"], striped["mode"]) == (2, "extended")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("mode: stream, streams: 2", "streams: 2 needs mode: extended"),
        ("mode: stream, data: kept", "data: kept needs mode: extended"),
        ("mode: stream, pipeline: 3", "pipeline: 3 needs mode: extended"),
        ("mode: stream, transfer: upload, size: 1MB, stripes: 1", "stripes: 1 needs mode: extended"),
        ("stripes: 2, mode: stream", "stripes: 2 needs mode: extended"),
        ("transfer: upload, size: 1MB, streams: 9, stripes: 8", "streams times stripes must be at most 64"),
        ("pipeline: 101", "pipeline"),
        ("restart_at: 1kB, pipeline: 2", "restart_at cannot be combined with part or pipeline"),
        ("restart_at: 1kB, part: {length: 1kB}", "restart_at cannot be combined with part or pipeline"),
        ("transfer: upload, size: 1MB, restart_at: 2MB", "restart_at is behind the end of the file"),
        ("streams: 65", "streams"),
        ("transfer: upload", "an upload needs the size of its content"),
        ("transfer: upload, size: 1MB, part: {length: 1kB}", "the size of a part is its length"),
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
