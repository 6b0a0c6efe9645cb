"""`plimsoll import access-log`: from a log to a file that `plan` accepts, or to a message."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from plimsoll.cli.main import main
from plimsoll.plan import load_experiment


def line(at: int, path: str, method: str = "GET", host: str = "10.0.0.1", size: int = 10) -> str:
    hours, minutes, seconds = at // 3600 % 24, at // 60 % 60, at % 60
    stamp = f"25/Nov/2026:{hours:02d}:{minutes:02d}:{seconds:02d} +0000"
    return f'{host} - - [{stamp}] "{method} {path} HTTP/1.1" 200 {size} "-" "-"\n'


def site(directory: Path, name: str = "access.log") -> Path:
    """Pages and images by Zipf's law, three other paths, and HEAD requests."""
    rng = np.random.default_rng(1)
    ranks = np.arange(1, 201) ** -0.9
    found = []
    for at in np.sort(rng.integers(0, 36_000, 4000)):
        number = rng.choice(200, p=ranks / ranks.sum())
        kind = rng.choice(["/pages/{}.html", "/img/a b/{}.png?x={{y}}", "/robots.txt"], p=[0.5, 0.45, 0.05])
        method = "HEAD" if rng.random() < 0.05 else "GET"
        path = kind.format(number).replace(" ", "%20")
        found.append(line(int(at), path, method, f"10.0.0.{rng.integers(40)}"))
    path = directory / name
    path.write_text("".join(found))
    return path


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_experiment_that_plan_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site(tmp_path)
    assert main(["import", "access-log", "access.log", "--target", "http://127.0.0.1:1/base"]) == 0
    out = capsys.readouterr().out
    assert "access.log: 4,000 requests in 4,000 lines" in out
    assert "Popularity, GET /pages/" in out and "Popularity, HEAD all paths" in out
    (cell,) = load_experiment(tmp_path / "access.yaml").cells
    (work,) = cell.config.workloads
    assert [(each.name, each.request["method"]) for each in work.operations] == [
        ("pages", "GET"), ("img", "GET"), ("other", "GET"), ("head", "HEAD"),
    ]  # fmt: skip
    assert sum(each.weight for each in work.operations) == 4000
    pages = work.values["pages"]
    assert pages.kind == "weighted" and pages.weights[0] == 1.0 and pages.weights[1] < 1.0
    assert all(path.startswith("/pages/") for path in pages.items)
    assert any("{y}" in path for path in work.values["img"].items), "paths of a log are sent as they are"
    assert work.warnings == ()
    # The alternatives in the comments are accepted too.
    text = (tmp_path / "access.yaml").read_text()
    assert main(["plan", "access.yaml"]) == 0
    start, end = text.index("  mix:"), text.index("  # To repeat")
    replay = text[:start] + text[end:].replace("  # http:", "  http:")
    kept = [each for each in replay.split("\n") if not each.startswith(("load:", "run:", "# load:"))]
    (tmp_path / "replay.yaml").write_text("\n".join([*kept, "load: {replay: log}", "run: {drain: 1s}"]))
    assert main(["plan", "replay.yaml"]) == 0
    for comment in [each for each in text.split("\n") if each.startswith(("# load:", "# factors:"))]:
        chosen = [each for each in text.split("\n") if comment[2] == "f" or not each.startswith("load:")]
        chosen = ["run: {}" if "stages" in comment and each.startswith("run:") else each for each in chosen]
        (tmp_path / "other.yaml").write_text("\n".join([*chosen, comment[2:]]))
        assert main(["plan", "other.yaml"]) == 0, comment


def test_paths_without_a_law_are_repeated(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(line(at, "/a" if at % 3 else "/b") for at in range(3000)))
    assert main(["import", "access-log", "a.log"]) == 0
    lines = (tmp_path / "a.root.txt").read_text().split()
    assert (lines.count("/a"), lines.count("/b")) == (667, 333)
    assert "order: random" in (tmp_path / "a.yaml").read_text()


def test_a_compressed_log_and_other_names(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "x.log.gz").write_bytes(gzip.compress(site(tmp_path).read_bytes()))
    assert main(["import", "access-log", "logs/x.log.gz"]) == 0
    (tmp_path / "out").mkdir()
    assert main(["import", "access-log", "logs/x.log.gz", "-o", "out/My site.yaml", "--objects", "500"]) == 0
    text = (tmp_path / "out" / "My site.yaml").read_text()
    assert 'file: "../logs/x.log.gz"' in text and "name: My-site\n" in text
    assert load_experiment(tmp_path / "out" / "My site.yaml").cells


def test_names_and_paths_that_attack_the_file(tmp_path: Path) -> None:
    name = 'x"\n# }\nservices: {a: {kind: "echo"}} ${vars.x}.log'
    content = "".join(line(at, f"/{at % 7}'\\x22}}]#{{tester}}:${{vars.x}}") for at in range(2000))
    (tmp_path / name).write_text(content)
    assert main(["import", "access-log", name, "-o", "x.yaml"]) == 0
    (cell,) = load_experiment(tmp_path / "x.yaml").cells
    assert cell.config.services == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no GET or HEAD request that can be used: x.log: 0 requests in 0 lines"),
        (bytes(range(256)) * 50, "lines cannot be read, the first is line 1"),
        (b"x" * 1_000_000, "the line is longer than 65,536 bytes"),
        (b"\x1f\x8b\x08\x00", "truncated or damaged after line 0"),
        (line(0, "/", "POST").encode(), "1 with methods other than GET and HEAD"),
        (line(0, "/").replace("25/Nov", "31/Feb").encode(), "the time does not exist"),
        (line(0, "/", size=-5).encode(), "the size is negative"),
    ],
)
def test_logs_without_requests(
    tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_bytes(content)
    assert main(["import", "access-log", "x.log"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.yaml").exists()


def test_wrong_options_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site(tmp_path)
    for words, message in (
        (["none.log"], "none.log: cannot be read: No such file"),
        (["."], "expected a file"),
        (["access.log", "--duration", "s"], "--duration needs --format"),
        (["access.log", "--objects", "0"], "--objects: expected a number of at least 1, got 0"),
        (["access.log", "-o", "no/where.yaml"], "cannot be written"),
    ):
        assert main(["import", "access-log", *words]) == 2
        assert message in capsys.readouterr().err
    assert main(["import", "access-log", "access.log"]) == 0
    assert main(["import", "access-log", "access.log"]) == 2
    assert "access.yaml: the file exists" in capsys.readouterr().err
    assert main(["import", "access-log", "access.log", "--force"]) == 0


def test_one_request_is_enough_for_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(line(0, "/") + "rubbish\n")
    assert main(["import", "access-log", "x.log"]) == 97, "half of the lines cannot be read"
    assert load_experiment(tmp_path / "x.yaml").cells
    assert json.dumps((tmp_path / "x.root.txt").read_text()) == '"/\\n"'
