"""The script of the charts is stored, and verified when it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import vl_convert

from plimsoll.report import vega


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Sets up a separate cache. Yields the versions that vl-convert is asked for."""
    versions: list[str] = []

    def bundle(*, vl_version: str) -> str:
        versions.append(vl_version)
        return "draw();\r\n'</script>'"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    vega.vega_bundle.cache_clear()
    yield versions
    vega.vega_bundle.cache_clear()


def again() -> str:
    vega.vega_bundle.cache_clear()
    return vega.vega_bundle()


def only_file() -> Path:
    (file,) = vega.cache_directory().iterdir()
    return file


def test_the_script_is_made_once_and_is_safe_in_a_page(made: list[str]) -> None:
    assert again() == again() == "draw();\n'<\\/script>'"
    assert len(made) == 1


def test_a_damaged_copy_is_made_again(made: list[str]) -> None:
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


def test_without_a_cache_the_script_is_still_made(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert again() == again()
    assert len(made) == 2
