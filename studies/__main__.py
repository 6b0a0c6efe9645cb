"""Measures studies, stores their summaries, and writes their pages.

    python -m studies measure studies/frontier/02-gateway.yaml     run the form for the page, store the summary
    python -m studies store DIR studies/frontier/02-gateway.yaml   store the summary of a results directory
    python -m studies write frontier                               write docs/studies/frontier.md

`measure` runs a study with the options of the line `# page:` of its header.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from studies.page import page
from studies.summary import read_folder, save, summarise

from plimsoll import api
from plimsoll.errors import BadInput

ROOT: Final = Path(__file__).resolve().parents[1]


def written(name: str) -> tuple[Path, str]:
    """The page of a folder of studies: its path and its text."""
    folder = ROOT / "studies" / name
    if not (folder / "page.md.j2").is_file():
        raise BadInput(f"{folder}: no page.md.j2, so that no page is written from stored summaries")
    text = page((folder / "page.md.j2").read_text(encoding="utf-8"), read_folder(folder))
    return ROOT / "docs" / "studies" / f"{name}.md", text


def page_options(study: Path) -> list[str]:
    """The options of the line `# page:` of a study."""
    found = re.search(r"^# page:(.*)$", study.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise BadInput(f"{study}: expected a line `# page: --set PATH=VALUE ...` in the header")
    return shlex.split(found[1])


def store(directory: Path, study: Path, folder: Path) -> Path:
    """Writes the summary of a results directory; returns its path."""
    environment = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
    path = folder / "results" / f"{study.stem}.json"
    save(summarise(study.stem, api.analysis(directory), environment), path)
    return path


def _measure(study: Path, folder: Path, out: Path) -> Path:
    command = ["plimsoll", "run", str(study), "--out", str(out), *page_options(study)]
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, 99):
        raise BadInput(
            f"{study}: `{shlex.join(command)}` ended with exit code {done.returncode}; nothing is stored"
        )
    return store((out / "latest").resolve(), study, folder)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Measures studies, stores their summaries, and writes their pages."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    measure = verbs.add_parser("measure", help="run the form of a study for the page, and store the summary")
    measure.add_argument("study", type=Path, nargs="+")
    measure.add_argument(
        "--out", type=Path, default=Path("results"), help="parent of the results directories"
    )
    kept = verbs.add_parser("store", help="store the summary of a results directory")
    kept.add_argument("directory", type=Path)
    kept.add_argument("study", type=Path, help="experiment file of the study")
    for verb in (measure, kept):
        verb.add_argument("--folder", type=Path, help="folder of the studies (default: that of the file)")
    verbs.add_parser("write", help="write a page").add_argument("name", help="folder below studies")
    asked = parser.parse_args(words)
    actions: dict[str, Callable[[], list[Path]]] = {
        "measure": lambda: [_measure(each, asked.folder or each.parent, asked.out) for each in asked.study],
        "store": lambda: [store(asked.directory, asked.study, asked.folder or asked.study.parent)],
        "write": lambda: [_write(asked.name)],
    }
    try:
        for path in actions[asked.verb]():
            print(path)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _write(name: str) -> Path:
    path, text = written(name)
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
