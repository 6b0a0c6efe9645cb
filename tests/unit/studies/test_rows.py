"""The row of every study works once the study is measured: it is rendered with a summary of the right shape."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.__main__ import page_options
from studies.page import page
from studies.summary import ALWAYS, MISS_OVER_HIT, Cell, Summary, stored_name
from tests.conftest import ROOT

from plimsoll.plan import load_experiment

FOLDER = ROOT / "studies" / "frontier"
STUDIES = [ROOT / "examples" / "access-methods.yaml", *sorted(FOLDER.glob("*.yaml"))]
TEMPLATE = (FOLDER / "page.md.j2").read_text(encoding="utf-8")
OF_POLICIES = ("stale_share", "relative_reads", "stale_age_ms_p95", "origin_share", "needless_share")


def synthetic(study: Path) -> Summary:
    """The cells of the form for the page, with a figure for each response, as `summarise` computes them."""
    experiment = load_experiment(study, [word for word in page_options(study) if word != "--set"])
    names = [*(stored_name(response.metric) for response in experiment.responses), *ALWAYS]
    services = [service.name for service in experiment.cells[0].config.services]
    labels = [
        {name: level for name, level in cell.labels.items() if level is not None} for cell in experiment.cells
    ]
    if study.stem == "10-consistency":
        labels += [{"policy": level} for level in dict.fromkeys(each["policy"] for each in labels)]
        names += OF_POLICIES
    if study.stem == "11-first-fetch":
        names.append(MISS_OVER_HIT)
    cells = [
        Cell(
            each,
            2,
            {name: [0.5, 0.4, 0.6] for name in names},
            0.0,
            "host",
            {name: [0.5, 0.7] for name in services},
        )
        for each in labels
    ]
    return Summary(
        study.stem,
        experiment.question,
        "2026-11-28",
        "0.1.0",
        [],
        "2 cores",
        {},
        8,
        8,
        1234,
        5.0,
        2,
        0.03,
        [],
        cells,
    )


@pytest.mark.long
def test_the_page_has_a_row_for_every_study_once_it_is_measured() -> None:
    text = page(TEMPLATE, {study.stem: synthetic(study) for study in STUDIES})
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert [row.split("**")[1].split(".")[0] for row in rows] == [
        *map(str, range(1, 14)), "From a far site", *map(str, range(14, 33))
    ]  # fmt: skip
    assert all(row.count(" | ") == 3 and row.endswith(" |") for row in rows)
    assert "Questions without figures yet" not in text
    assert "withdrawn" not in text and "not comparable" not in text
    assert text.count(" \u2020 |") == 0, "no figure was typed"


def test_every_study_is_named_by_the_template() -> None:
    for study in STUDIES:
        assert f'study("{study.stem}")' in TEMPLATE or f'("{study.stem}", ' in TEMPLATE, study.stem
