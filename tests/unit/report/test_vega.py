"""The script of the charts is kept, and never trusted blindly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import vl_convert

from plimsoll.report import vega


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A cache of its own, and what vl-convert was asked for since."""
    asked: list[str] = []

    def bundle(*, vl_version: str) -> str:
        asked.append(vl_version)
        return "draw();\r\n'</script>'"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    vega.vega_bundle.cache_clear()
    yield asked
    vega.vega_bundle.cache_clear()


def again() -> str:
    vega.vega_bundle.cache_clear()
    return vega.vega_bundle()


def only_file() -> Path:
    (file,) = vega.cache_directory().iterdir()
    return file


def test_it_is_made_once_and_is_fit_for_a_page(made: list[str]) -> None:
    assert again() == again() == "draw();\n'<\\/script>'"
    assert len(made) == 1


def test_a_damaged_copy_is_made_anew(made: list[str]) -> None:
    first = again()
    file = only_file()
    file.write_text(file.read_text(encoding="utf-8") + "steal();", encoding="utf-8")
    assert again() == first
    assert len(made) == 2
    file.write_bytes(b"\xff\xfe")
    assert again() == first
    assert len(made) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_copy_of_another_user_is_not_taken(made: list[str]) -> None:
    again()
    os.chown(only_file(), 65534, 65534)
    again()
    assert len(made) == 2


def test_without_a_place_to_keep_it_the_report_is_still_made(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert again() == again()
    assert len(made) == 2
