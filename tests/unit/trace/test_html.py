"""The page of a trace is self-contained, and names of files stay in its data."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from tests.unit.trace.made import HOSTILE, binned, document, file, picture, pictures, profile_document

from plimsoll.trace.html import render


def data_of(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="plimsoll-data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


class Elements(HTMLParser):
    """Counts elements and their attributes, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def hostile_page() -> str:
    files = [file(name, reads=5, writes=2, other_names=list(HOSTILE)) for name in HOSTILE]
    base = document()
    changed = {
        "findings": [
            {"kind": "x", "file": name, "numbers": {}, "text": f"{name} is useless"} for name in HOSTILE
        ],
        "missing": [{"path": name, "count": 2} for name in HOSTILE],
        "blind_spots": [
            {"kind": "x", "file": name, "count": 1, "bytes": 1, "text": name} for name in HOSTILE
        ],
        "unparsed": base["unparsed"] | {"odd_lines": 1, "examples": list(HOSTILE)},
        "source": base["source"] | {"command": ["sh", *HOSTILE], "host": list(HOSTILE[:3])},
        "processes": [base["processes"][0] | {"program": name} for name in HOSTILE],
    }
    return render(
        profile_document(*files, **changed), pictures(*(picture(name, 7) for name in HOSTILE)), HOSTILE[0]
    )


def test_names_of_files_never_become_elements() -> None:
    page, plain = Elements(hostile_page()), Elements(render(profile_document(), pictures(), "job.trace"))
    assert page.tags.count("script") == plain.tags.count("script") == 2
    assert set(page.tags) <= {*plain.tags, "pre"}  # the lines that were not understood
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "img" not in page.tags


def test_names_of_files_arrive_unchanged() -> None:
    data = data_of(hostile_page())
    assert [entry["path"] for entry in data["files"]] == list(HOSTILE)
    assert sorted(map(int, data["pictures"])) == list(range(len(HOSTILE)))


def test_the_page_loads_nothing_and_lets_only_its_own_script_run() -> None:
    page = render(profile_document(), pictures(), "job.trace")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe-eval" not in policy[1]
    assert not re.search(r'(src|href)="(?!#|data:)', page)


def test_known_values_of_a_file_are_present_and_zeros_are_not() -> None:
    files = data_of(render(profile_document(file("/a", reads=40), file("/b")), pictures(), "job.trace"))[
        "files"
    ]
    assert files[0]["reads"] == 40
    assert files[0]["time"] == [0.0005, 0.00035, 0.0004, 0.00045]
    assert files[0]["read"]["size"]["histogram"] == [[4096, 8192, 40]]
    assert "reads" not in files[1]
    assert files[1]["first_s"] == 0.1


def test_requests_are_columns_sorted_by_their_start() -> None:
    shuffled = picture("/data/a.root", 6)
    shuffled["points"].reverse()
    drawn = data_of(
        render(profile_document(), pictures(shuffled, binned("/data/b.out", 10_000_000)), "job.trace")
    )["pictures"]
    assert drawn["0"]["rows"]["t"] == [at * 10_000_000 for at in range(6)]
    assert drawn["0"]["rows"]["w"] == [1, 0, 0, 0, 0, 1]
    assert drawn["1"]["requests"] == 10_000_000
    assert drawn["1"]["density"]["columns"] == 40
    assert "rows" not in drawn["1"]


def test_ten_thousand_files_stay_small() -> None:
    files = [file(f"/data/run/{at:05d}.dat", failed=[], metadata={}, timeline=[]) for at in range(10_000)]
    page = render(profile_document(*files), pictures(), "job.trace")
    assert len(data_of(page)["files"]) == 10_000
    assert len(page) < 5_000_000


def test_the_page_states_that_tracing_was_most_of_the_run() -> None:
    mostly = document()["time"] | {"interval_only": True, "tracing_share": 0.7}
    page = render(profile_document(time=mostly), pictures(), "job.trace")
    assert data_of(page)["interval_only"] is True
    assert page.count("Tracing was most of this run") == 2
    assert "too much for a single estimate" in page
    assert "The cost of tracing is subtracted from durations" not in page
