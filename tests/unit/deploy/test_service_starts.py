"""Each kind of services is listed once: what it states about itself, and how it starts."""

from __future__ import annotations

from typing import get_args

from plimsoll.deploy.servers.own import start_own
from plimsoll.deploy.servers.table import STARTS
from plimsoll.plan.model.cell import DatabaseKind
from plimsoll.plan.services.frontier import DATABASE_KINDS
from plimsoll.plan.services.table import LATER_KINDS, SERVICE_KINDS


def test_each_kind_has_a_start_and_only_kinds_of_the_engine_share_one() -> None:
    assert STARTS.keys() == SERVICE_KINDS.keys()
    in_engine = {kind for kind, section in SERVICE_KINDS.items() if section.runs_in_engine}
    assert {kind for kind, row in STARTS.items() if row.start is start_own} == in_engine
    others = [row.start for kind, row in STARTS.items() if kind not in in_engine]
    assert len(set(others)) == len(others)


def test_each_kind_describes_itself_completely() -> None:
    for kind, section in SERVICE_KINDS.items():
        assert "scheme" in vars(section), kind
        assert section.__doc__, kind
        assert section.start_ns >= 0, kind
    assert not SERVICE_KINDS.keys() & set(LATER_KINDS)


def test_the_databases_are_the_kinds_that_store_tables() -> None:
    stores = {section.database_kind for section in SERVICE_KINDS.values()} - {None}
    assert stores == set(DATABASE_KINDS) == set(get_args(DatabaseKind))
