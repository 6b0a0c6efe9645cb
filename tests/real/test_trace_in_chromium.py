"""The page of a trace opened in headless Chromium, and used as a reader uses it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from plimsoll.trace.html import render
from tests.real.test_report_in_chromium import Seen, opened, with_script
from tests.unit.trace.made import HOSTILE, binned, file, picture, pictures, profile_document
from tests.unit.trace.test_html import hostile_page

WAIT = """
const compute = () => { let sum = 0; for (let i = 0; i < 5e6; i++) sum += i % 7; return sum; };
const wait = async (done) => {
  while (!done()) { await new Promise((next) => setTimeout(next, 30)); compute(); }
};
"""
"""Of scripts that do what a reader does. The virtual time of an idle page passes at once, but other threads of the
browser, such as the encoder of pictures, need real time: `compute` takes some ms of it in each step."""
READY = 'await wait(() => document.documentElement.dataset.ready === "yes");'


def used(page: str, acts: str, tmp_path: Path) -> Seen:
    """The page when a reader has done this; what he saw is in `seen` of the root."""
    script = (
        f"(async function () {{ {WAIT} {READY} const seen = document.documentElement.dataset; {acts} }})();"
    )
    path = tmp_path / "trace.html"
    path.write_text(with_script(page, script), encoding="utf-8")
    seen = opened(path, tmp_path)
    assert (seen.console, seen.requests) == ((), ())
    return seen


def noted(seen: Seen, name: str) -> str:
    """What a reader's script has noted."""
    found = re.search(rf'data-{name}="([^"]*)"', seen.document)
    assert found is not None, f"the reader's script did not come as far as {name}"
    return html.unescape(found[1]).replace("\u00a0", " ")


def ordinary() -> str:
    files = [
        file("/data/a.root", reads=40, writes=10),
        file("/data/b.out", reads=9, other_names=["/data/b.part"]),
        file("/etc/c", reads=2),
    ]
    found = (picture("/data/a.root", 50), binned("/data/b.out", 10_000_000), picture("/etc/c", 2))
    return render(profile_document(*files), pictures(*found), "job.trace")


@pytest.mark.parametrize(
    "page", [ordinary, hostile_page, lambda: render(profile_document(), pictures(), "empty.trace")]
)
def test_the_page_opens_from_disk(page: object, tmp_path: Path) -> None:
    assert callable(page)
    seen = used(page(), "", tmp_path)
    assert 'data-ready="yes"' in seen.document
    assert "<img" not in seen.document


def test_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    seen = used(
        hostile_page(),
        """const names = document.querySelectorAll("#file-list .pick");
        seen.names = Array.from(names, (each) => each.textContent).join("|");""",
        tmp_path,
    )
    assert noted(seen, "names") == "|".join(f"{name} (+{len(HOSTILE)} names)" for name in HOSTILE)


def test_files_are_filtered_and_sorted(tmp_path: Path) -> None:
    acts = """
    const names = () => Array.from(document.querySelectorAll("#file-list .pick"), (each) => each.textContent).join();
    const heads = Array.from(document.querySelectorAll("#file-list th"));
    const head = heads.find((each) => each.textContent === "reads");
    head.querySelector("button").click();
    seen.most = names() + " " + head.getAttribute("aria-sort");
    head.querySelector("button").click();
    seen.least = names() + " " + head.getAttribute("aria-sort");
    const filter = document.getElementById("filter");
    filter.value = "^/data/.*t$";
    filter.dispatchEvent(new Event("input"));
    await wait(() => names() === "/data/b.out (+1 name),/data/a.root");
    filter.value = "[.]part$";
    filter.dispatchEvent(new Event("input"));
    await wait(() => names() === "/data/b.out (+1 name)");
    filter.value = "(";
    filter.dispatchEvent(new Event("input"));
    await wait(() => document.getElementById("filter-problem").textContent);
    seen.problem = document.getElementById("filter-problem").textContent;
    """
    seen = used(ordinary(), acts, tmp_path)
    assert noted(seen, "most") == "/data/a.root,/data/b.out (+1 name),/etc/c descending"
    assert noted(seen, "least") == "/etc/c,/data/b.out (+1 name),/data/a.root ascending"
    assert noted(seen, "problem").startswith("Not a regular expression")


def test_a_request_is_found_from_the_picture_and_from_its_row(tmp_path: Path) -> None:
    """A click into the picture marks the row of what was drawn there; a row marks its request; a zoom leaves fewer."""
    acts = """
    const canvas = document.getElementById("pattern"), picked = document.getElementById("picked");
    const rows = () => Array.from(document.querySelectorAll("#requests tbody tr"));
    const chosen = () => rows().findIndex((row) => row.getAttribute("aria-selected"));
    const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    seen.rows = rows().length;
    rows()[7].click();
    seen.row = chosen() + " " + picked.textContent;
    key("n");
    seen.next = chosen() + " " + picked.textContent;
    const box = canvas.getBoundingClientRect();
    key("+"); key("+"); key("+");
    await wait(() => rows().length < 50);
    seen.zoomed = rows().length;
    seen.note = document.getElementById("pattern-note").textContent;
    canvas.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    await wait(() => rows().length === 50);
    // The first request that was read lies where its offset and its start say.
    const scale = (value, low, high) => (value - low) / (high - low);
    const t1 = 0.49002 * 1.02, t0 = -0.49002 * 0.02, o1 = 50 * 4096 * 1.04;
    const at = [74 + scale(0.01, t0, t1) * (box.width - 88), 26 + (1 - scale(37 * 4096 + 2048, 0, o1)) * (420 - 66)];
    const where = { clientX: box.left + at[0], clientY: box.top + at[1], bubbles: true, pointerId: 1 };
    canvas.setPointerCapture = () => {};
    canvas.dispatchEvent(new PointerEvent("pointermove", where));
    seen.hover = document.getElementById("tip").textContent;
    canvas.dispatchEvent(new PointerEvent("pointerdown", where));
    canvas.dispatchEvent(new PointerEvent("pointerup", where));
    seen.clicked = chosen() + " " + picked.textContent;
    document.getElementById("show-read").click();
    seen.writes = rows().length;
    """
    seen = used(ordinary(), acts, tmp_path)
    assert noted(seen, "rows") == "50"
    assert noted(seen, "row").startswith("7 Read of 4,096 B at byte 36,864, 0.070000 s, took 20.0 µs")
    assert noted(seen, "next").startswith("8 Read of 4,096 B at byte 188,416, 0.080000 s")
    assert 0 < int(noted(seen, "zoomed")) < 50
    assert noted(seen, "note").startswith(f"Exact: {noted(seen, 'zoomed')} of 50 requests")
    assert noted(seen, "hover").startswith("Read of 4,096 B at byte 151,552, 0.010000 s")
    assert noted(seen, "clicked") == f"1 {noted(seen, 'hover')}"
    assert noted(seen, "writes") == "10"


def test_what_is_binned_says_so_and_how_to_see_it_exactly(tmp_path: Path) -> None:
    acts = """
    const names = Array.from(document.querySelectorAll("#file-list .pick"));
    names.find((each) => each.textContent.startsWith("/data/b.out")).click();
    await wait(() => seen.looked === "/data/b.out");
    seen.note = document.getElementById("pattern-note").textContent;
    seen.table = String(document.getElementById("requests").hidden);
    const canvas = document.getElementById("pattern");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let drawn = 0;
    const blue = (at) => pixels[at + 2] > pixels[at] + 60 && pixels[at + 3] > 60;
    for (let at = 0; at < pixels.length; at += 4) drawn += blue(at) ? 1 : 0;
    seen.drawn = String(drawn > 500);
    """
    seen = used(ordinary(), acts, tmp_path)
    assert noted(seen, "note").startswith("Binned: 10,000,000 requests in 40 × 40 cells")
    assert "plimsoll trace show job.trace --file '^/data/b\\.out$' --from " in noted(seen, "note")
    assert noted(seen, "table") == "true"
    assert noted(seen, "drawn") == "true"


def test_pictures_are_saved_as_svg_and_png(tmp_path: Path) -> None:
    acts = """
    const saved = [];
    URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
    HTMLAnchorElement.prototype.click = function () {};
    const buttons = document.querySelectorAll("#pattern-save button, #run-save button, #save-sizes button");
    for (const button of buttons) button.click();
    await wait(() => saved.length === 6);
    const texts = await Promise.all(saved.filter((blob) => blob.type === "image/svg+xml").map((blob) => blob.text()));
    const whole = texts.map((text) => new DOMParser().parseFromString(text, "image/svg+xml").documentElement.nodeName);
    seen.kinds = saved.map((blob) => blob.type).sort().join();
    seen.whole = whole.join();
    seen.marks = String(texts.some((text) => (text.match(/<rect/g) || []).length >= 40));
    """
    seen = used(ordinary(), acts, tmp_path)
    assert noted(seen, "kinds") == ",".join(["image/png"] * 3 + ["image/svg+xml"] * 3)
    assert noted(seen, "whole") == "svg,svg,svg"
    assert noted(seen, "marks") == "true"


def test_a_name_in_a_picture_is_text(tmp_path: Path) -> None:
    """The time line of files writes names into SVG."""
    acts = """
    const saved = [];
    URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
    HTMLAnchorElement.prototype.click = function () {};
    document.querySelectorAll("#lines-save button")[1].click();
    const text = await saved[0].text();
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
    seen.root = parsed.documentElement.nodeName;
    seen.kinds = Array.from(new Set(Array.from(parsed.querySelectorAll("*"), (each) => each.nodeName))).sort().join();
    """
    seen = used(hostile_page(), acts, tmp_path)
    assert noted(seen, "root") == "svg"
    assert noted(seen, "kinds") == "path,rect,svg,text"


def test_a_broken_page_is_seen_as_one(tmp_path: Path) -> None:
    """The test of the tests: a script that fails is on the console."""
    path = tmp_path / "trace.html"
    path.write_text(with_script(ordinary(), "missing.thing();"), encoding="utf-8")
    assert any("missing is not defined" in line for line in opened(path, tmp_path).console)
