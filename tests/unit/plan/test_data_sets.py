"""`data:` of two kinds, and the workload that queries it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.errors import BadInput
from plimsoll.plan import make_plan, parse_experiment
from plimsoll.plan.model.cell import Config

FILE = """
plimsoll: 1
name: data-sets
services: {{db: {{kind: sqlite}}}}
data: {{conditions: {data}}}
workload: {{driver: sql, target: db, {work}, sql: {{}}}}
load: {{testers: 1}}
run: {{duration: 1s}}
"""
COOL = "{into: db, kind: cool, prefix: LAB, folders: 2, channels: 10, iovs: 5, payload: 60B}"
ASKED = "cool: {prefix: LAB, folders: 2, channels: 10, iovs: 5, payload: 60B}"


def config(data: str, work: str) -> Config:
    text = FILE.format(data=data, work=work)
    return make_plan(parse_experiment(text, "data.yaml", Path(), (), {}), 1).runs[0].config


def test_a_cool_set_has_the_settings_of_the_engine() -> None:
    (data,) = config(COOL, ASKED).data
    assert data.kind == "cool"
    assert dict(data.settings) == {
        "kind": "cool",
        "prefix": "LAB",
        "folders": 2,
        "channels": 10,
        "iovs": 5,
        "tags": 1,
        "versioning": "single",
        "payload": 60,
        "compressibility": 0.0,
        "seed": 1,
    }
    assert data.bytes > 2 * 10 * 5 * 60


def test_the_payload_of_a_cool_set_may_have_types() -> None:
    section = COOL.replace("60B", "60B, types: [int, double, text]")
    (data,) = config(section, ASKED.replace("60B", "60B, columns: 3")).data
    assert data.settings["types"] == ["int", "double", "text"]
    assert "columns" not in data.settings


def test_a_table_may_have_columns_of_types() -> None:
    section = "{into: db, rows: 20, row: 10B, columns: 3, types: [text, int], compressibility: 25%}"
    (data,) = config(section, "table: {table: conditions, rows: 20}").data
    assert data.kind == "table"
    assert data.settings["name"] == "conditions"
    assert (data.settings["columns"], data.settings["types"]) == (3, ["text", "int"])
    assert data.settings["compressibility"] == 25.0
    assert data.bytes == 600


@pytest.mark.parametrize(
    ("data", "work", "message"),
    [
        (
            COOL,
            ASKED.replace("channels: 10", "channels: 11"),
            "11 channels are requested, but data.conditions has only 10",
        ),
        (
            COOL.replace("60B", "60B, versioning: multi"),
            ASKED,
            "versioning is single, but data.conditions has multi",
        ),
        (
            COOL.replace("60B", "60B, columns: 4"),
            ASKED.replace("60B", "60B, columns: 5"),
            "5 columns of the payload are requested, but data.conditions has only 4",
        ),
        (
            COOL.replace("60B", "60B, types: [int, text]"),
            ASKED.replace("60B", "60B, columns: 3"),
            "3 columns of the payload are requested, but data.conditions has only 2",
        ),
        (
            COOL.replace("60B", "60B, versioning: multi, tags: 2"),
            ASKED.replace("60B", "60B, versioning: multi, tag: 3"),
            "tag 3 is requested, but data.conditions has only 2",
        ),
        (
            COOL.replace("60B", "16B, types: [int, double, text]"),
            ASKED,
            "payload must be at least 17 B .8 B for each number or time, at least 1 B for each string., got 16 B",
        ),
        (COOL.replace("60B", "60B, types: [int]"), ASKED, "payload must be exactly 8 B"),
        (COOL.replace("cool", "kool"), ASKED, "kind"),
        (COOL.replace("folders: 2, ", ""), ASKED, "folders"),
        (COOL.replace("60B", "60B, rows: 5"), ASKED, "rows"),
        ("{into: db, rows: 5, row: 0B}", "table: {table: conditions, rows: 5}", "row"),
        ("{into: db, rows: 5, row: 5B, types: [texts]}", "table: {table: conditions, rows: 5}", "texts"),
    ],
)
def test_data_sets_that_do_not_fit_are_rejected(data: str, work: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        config(data, work)
