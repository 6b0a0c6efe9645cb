"""Every verb as a user calls it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from plimsoll.cli.main import QUICK, VERBS
from tests.conftest import ROOT, Lab

SMALL = """
plimsoll: 1
name: small
question: Does it answer?
services: {web: {kind: echo, http: true, body: 100B}}
workload: {driver: http, target: web, timeout: 20s, http: {path: /}}
load: {testers: 1, think: 2ms}
factors: {load.testers: [1, 2]}
design: {repetitions: 2, seed: 5}
run: {warmup: 100ms, duration: 600ms, drain: 5s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""
HEAVY = ("numpy", "pydantic", "altair", "pyarrow", "scipy", "statsmodels")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab whose newest results are those of SMALL; tests of this file only read them, or write beside."""
    lab = Lab(tmp_path_factory.mktemp("measured"))
    done = lab.run("run", lab.file(SMALL))
    assert done.code == 0, done.err
    return lab


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['plimsoll', '--help']\n"
        "from plimsoll.cli.main import main\n"
        "assert main() == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for verb in VERBS:
        assert f"  {verb} " in done.stdout
    assert QUICK in done.stdout


def test_no_threads_for_linear_algebra_unless_asked_for() -> None:
    code = "import os, plimsoll.cli.main; print(os.environ['OPENBLAS_NUM_THREADS'])"
    for given, told in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(ROOT / "python"), **given},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == told


@pytest.mark.parametrize("verb", [*VERBS, "analyze"])
def test_every_verb_has_help(lab: Lab, verb: str) -> None:
    done = lab.run(verb, "--help")
    assert done.code == 0, done.err
    assert done.out.startswith(f"usage: plimsoll {verb}")


def test_no_words_and_wrong_words(lab: Lab) -> None:
    assert lab.run().code == 2
    assert "plimsoll 0." in lab.run("--version").out
    done = lab.run("rnu", "file.yaml")
    assert done.code == 2
    assert (
        done.err == 'plimsoll: "rnu" is neither a verb nor a URL; did you mean "run"? See plimsoll --help.\n'
    )
    done = lab.run("zzzzzz")
    assert done.code == 2
    assert done.err == 'plimsoll: "zzzzzz" is neither a verb nor a URL. See plimsoll --help.\n'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "testers: 1, think",
            "tester: 1, think",
            ["experiment.yaml:7", "load.tester", 'did you mean "testers"'],
        ),
        ("duration: 600ms", "duration: 600", ["experiment.yaml:10", "run.duration", "600"]),
        (
            "{load.testers: [1, 2]}",
            "{load.testrs: [1, 2]}",
            ["experiment.yaml:8", "load.testrs", "load.testers"],
        ),
        ("seed: 5}", "seed: 5, exclude: [{load.testers: 9}]}", ["experiment.yaml:9", "exclude", "9"]),
        ("repetitions: 2", "repetitions: 100000", ["experiment.yaml", "runs"]),
        ("repetitions: 2", "repetitions: two", ["experiment.yaml:9", "design.repetitions", "two"]),
        ("think: 2ms}", "think: 2ms", ["experiment.yaml"]),
    ],
)
def test_a_wrong_file_is_told_where_and_what(lab: Lab, old: str, new: str, said: list[str]) -> None:
    assert old in SMALL
    done = lab.run("run", lab.file(SMALL.replace(old, new, 1)))
    assert done.code == 2, done.out + done.err
    for words in said:
        assert words in done.err, done.err
    assert not (lab.directory / "results").exists(), "nothing is begun with a wrong file"


def test_files_that_are_not_there(lab: Lab) -> None:
    for verb in ("run", "plan"):
        done = lab.run(verb, "nowhere.yaml")
        assert done.code == 2
        assert "nowhere.yaml" in done.err
    for words in (("show",), ("report",), ("check",), ("status",), ("export", "--to", "csv"), ("analyse",)):
        done = lab.run(*words, "nowhere")
        assert done.code in (1, 2)
        assert "nowhere" in done.err
    assert lab.run("run").code == 2
    done = lab.run("run", "--resume", "nowhere")
    assert done.code == 1
    assert "not a results directory" in done.err


def test_init_then_plan_then_run(lab: Lab) -> None:
    made = lab.run("init", "mine.yaml")
    assert made.code == 0, made.err
    again = lab.run("init", "mine.yaml")
    assert again.code == 2
    assert "--force" in again.err
    planned = lab.run("plan", "mine.yaml")
    assert planned.code == 0, planned.err
    assert "12 runs" in planned.out
    assert not (lab.directory / "results").exists(), "plan starts nothing"
    short = ["--set", "run.warmup=0s", "--set", "run.duration=300ms", "--set", "design.repetitions=1"]
    ran = lab.run("run", "mine.yaml", *short)
    assert ran.code in (0, 97, 99), ran.err
    found = json.loads((lab.results() / "analysis.json").read_text())
    assert len(found["runs"]) == 6
    assert all(run["counts"]["succeeded"] > 0 for run in found["runs"])


def test_the_schema_takes_the_examples_and_no_rubbish(lab: Lab) -> None:
    schema = lab.run("schema").json
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    reader = YAML(typ="safe", pure=True)
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        validator.validate(reader.load(path))
    rubbish = reader.load(SMALL)
    rubbish["worklaod"] = {}
    assert not validator.is_valid(rubbish)


def test_doctor_says_what_it_looked_at(lab: Lab) -> None:
    done = lab.run("doctor")
    assert done.code in (0, 1)
    for what in (
        "engine",
        "open files",
        "local ports",
        "CPU frequency policy",
        "clock source",
        "usable cores",
    ):
        assert what in done.out
    findings = lab.run("doctor", "--json").json["findings"]
    assert findings[0]["what"] == "engine"
    assert findings[0]["verdict"] == "good"
    for one in findings:
        assert (one["verdict"] == "good") == (one["mend"] == "")


def test_serve_is_the_service_itself(lab: Lab) -> None:
    process = lab.start("serve", "delay", "--set", '{"servers": 1, "service": {"law": "fixed", "s": 0.001}}')
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        with urllib.request.urlopen(f"http://{address}/plimsoll/stats", timeout=20) as answer:
            assert json.loads(answer.read())["servers"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    done = lab.run("serve", "delay", "--set", "{")
    assert done.code == 2
    assert "not valid JSON" in done.err
    assert lab.run("serve", "squid").code == 2


def test_show_is_the_stored_analysis(measured: Lab) -> None:
    stored = json.loads((measured.results() / "analysis.json").read_text())
    shown = measured.run("show", "results/latest", "--json")
    assert shown.code == 0, shown.err
    told = shown.json
    for document in (stored, told):
        document["experiment"].pop("directory")
    assert told == stored
    text = measured.run("show", "results/latest")
    assert text.code == 0
    assert "4 of 4" in text.out
    assert "\x1b" not in text.out


def test_status_check_and_stop(measured: Lab) -> None:
    assert "complete, 4 of 4 runs" in measured.run("status", "results/latest").out
    assert "no experiment of yours runs" in measured.run("status").out
    done = measured.run("check", "results/latest")
    assert done.code == 0, done.out
    assert "no problems" in done.out
    assert measured.run("stop", "--all").code == 0
    done = measured.run("stop", "results/latest")
    assert done.code == 2
    assert "no running experiment of yours" in done.err


def test_a_refusal_for_want_of_disk_leaves_nothing_behind(lab: Lab) -> None:
    small = SMALL.replace("duration: 600ms", "duration: 200ms").replace("repetitions: 2", "repetitions: 1")
    done = lab.run("run", lab.file(small), "--quiet")
    assert done.code == 0, done.err
    before, newest = sorted((lab.directory / "results").iterdir()), lab.results()
    huge = small.replace("load: {testers: 1, think: 2ms}", "load: {rate: 1000000/s}").replace("200ms", "365d")
    huge = huge.replace("factors: {load.testers: [1, 2]}\n", "")
    for words in (
        ["run", lab.file(huge)],
        ["http://127.0.0.1:1/", "-z", "365d", "-q", "1e7", "--out", "results", "--no-probe"],
    ):
        done = lab.run(*words)
        assert done.code == 2
        assert "are free; use --out" in done.err
        assert sorted((lab.directory / "results").iterdir()) == before
        assert lab.results() == newest


def test_both_spellings_of_analyse(measured: Lab) -> None:
    one = measured.run("analyse", "results/latest", "--json", "--quantum", "200ms")
    two = measured.run("analyze", "results/latest", "--json", "--quantum", "200ms")
    assert one.code == two.code == 0
    assert one.json == two.json
    assert one.json["runs"][0]["series"]["quantum_s"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "run.duration=1s"], "only run.warmup"),
        (["--set", "run.warmup=1"], "run.warmup=1"),
        (["--set", "run.warmup=10s"], "is not shorter"),
        (["--quantum", "soon"], "--quantum soon"),
    ],
)
def test_options_of_analyse_that_cannot_be(measured: Lab, words: list[str], said: str) -> None:
    done = measured.run("analyse", "results/latest", *words)
    assert done.code == 2
    assert said in done.err


TABLE = "machine,load,time\n" + "".join(
    f"{machine},{load},{base + extra + noise}\n"
    for machine, base in (("old", 20), ("new", 10))
    for load, extra in (("low", 0), ("high", 5))
    for noise in (-0.5, 0.0, 0.5)
)


def test_a_table_of_anybody(lab: Lab) -> None:
    lab.file(TABLE, "table.csv")
    words = ("analyse", "table.csv", "--response", "time", "--factors", "machine,load")
    done = lab.run(*words, "--json")
    assert done.code == 0, done.err
    document = done.json
    assert document["format"] == "plimsoll.table-analysis/1"
    assert document["mean"] == pytest.approx(17.5)
    effects = {one["term"]: one for one in document["effects"] if "new" in str(one)}
    assert effects
    assert any(one["effect"] == pytest.approx(-5) for one in document["effects"])
    text = lab.run(*words)
    assert "sum of squares" in text.out
    assert "machine" in text.out


@pytest.mark.parametrize(
    ("table", "words", "said"),
    [
        (TABLE, ["--response", "time"], "--factors"),
        (TABLE, ["--response", "tme", "--factors", "machine"], "no column 'tme'"),
        (TABLE, ["--response", "machine", "--factors", "load"], "is not a number"),
        ("a,b\n1\n", ["--response", "a", "--factors", "b"], "row 2 has 1 values"),
        ("", ["--response", "a", "--factors", "b"], "expected a line of column names"),
        ("a,b\nnan,1\n2,2\n", ["--response", "a", "--factors", "b"], "nan"),
        ("\x00\xff", ["--response", "a", "--factors", "b"], "table.csv"),
    ],
)
def test_a_table_that_is_none(lab: Lab, table: str, words: list[str], said: str) -> None:
    (lab.directory / "table.csv").write_bytes(table.encode("latin-1"))
    done = lab.run("analyse", "table.csv", *words)
    assert done.code == 2, done.out + done.err
    assert said in done.err


def test_report_and_its_figures(measured: Lab) -> None:
    done = measured.run("report", "results/latest", "--figures", "svg", "--out", "figures")
    assert done.code == 0, done.err
    files = [measured.directory / line for line in done.out.splitlines()]
    assert len(files) >= 3
    for path in files:
        assert path.read_text().lstrip().startswith("<svg"), path
    done = measured.run("report", "results/latest")
    assert done.code == 0, done.err
    assert any(line.endswith("report.html") for line in done.out.splitlines())


def test_progress_is_plain_where_there_is_no_terminal(measured: Lab) -> None:
    done = measured.run("run", "experiment.yaml", "--out", "again", "--set", "design.repetitions=1")
    assert done.code == 0, done.err
    assert "\x1b" not in done.err + done.out
    assert "\r" not in done.err
    assert "run 1/2" in done.err
    assert "left" in done.err
    quiet = measured.run(
        "run", "experiment.yaml", "--out", "again", "--quiet", "--set", "design.repetitions=1"
    )
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


@pytest.mark.long
def test_only_summaries_are_kept_and_still_analysed(lab: Lab) -> None:
    text = SMALL.replace("warmup: 100ms, duration: 600ms", "warmup: 1s, duration: 3s, keep: summaries")
    done = lab.run("run", lab.file(text.replace("repetitions: 2", "repetitions: 1")), "--json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = done.json["runs"]
    assert len(found) == 2
    for run in found:
        directory = lab.results() / "runs" / run["id"]
        assert not (directory / "transactions.parquet").exists()
        assert not list(directory.glob("segments/*.arrow"))
        assert run["valid"], run["invalid_reasons"]
        assert any("only one-second histograms were kept" in note for note in run["notes"])
        counts = run["counts"]
        assert counts["started"] == counts["succeeded"] + counts["failed"] + counts["in_flight_at_end"]
        assert 0 < run["transactions"] <= counts["succeeded"]
        assert run["response_ms"]["p50"] > 0
        assert run["request_ms"]["count"] == 0
        assert sum(run["series"]["throughput_per_s"]) == pytest.approx(counts["succeeded"])
    assert lab.run("check", lab.results()).code == 0
    assert "only one-second histograms" in (lab.results() / "report.html").read_text()
    assert Path(lab.results() / "analysis.json").exists()
