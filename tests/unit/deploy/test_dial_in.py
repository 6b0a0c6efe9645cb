"""Kinds of hosts whose agents dial in: the parts that need no agent, and the texts for other programs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.hosts import dask_worker
from plimsoll.deploy.hosts.dial_in import natural_key
from plimsoll.deploy.hosts.gram import job_request, reason_in
from plimsoll.deploy.hosts.join import fill_template
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.deploy.hosts.slurm import Task, job_script, parse_queue, shared_engine, submission, walltime
from plimsoll.errors import BadInput
from plimsoll.plan import load_experiment, make_plan
from plimsoll.plan.model.hosts import Gram, Slurm

EXAMPLES = Path(__file__).parents[3] / "examples" / "hosts"


def test_a_template_keeps_other_braces() -> None:
    words = {"token": "/t", "name": "join", "count": "3", "engine": "/e"}
    assert fill_template("{engine} {token} {name}.${INDEX} {count}", words) == "/e /t join.${INDEX} 3"
    unchanged = "${token} ${name:-x} {other} { token } {{}} awk '{print $1}' spec: {a: 1}"
    assert fill_template(unchanged, words) == unchanged
    assert fill_template("{name}", {**words, "name": "{token}"}) == "{token}", (
        "a value that was filled in is not filled again"
    )


def test_the_request_of_a_job_has_no_token_and_quotes_its_paths() -> None:
    gram = Gram("ce:2119/jobmanager-fork", 2, "(queue=short)", "/scratch")
    request = job_request(gram, Path('/a "b"/engine'), Path("/p/token"), "gram.1")
    assert request == (
        '&(executable=$(GLOBUSRUN_GASS_URL) # "/a ""b""/engine")(stdin=$(GLOBUSRUN_GASS_URL) # "/p/token")'
        '(scratch_dir="/scratch")(directory=$(SCRATCH_DIRECTORY))'
        '(arguments="agent" "--join" "-" "--name" "gram.1" "--directory" $(SCRATCH_DIRECTORY) # "/agent")(queue=short)'
    )


def test_the_reason_of_a_failed_job_is_the_line_that_states_it() -> None:
    lost = "gram_init failure:\nglobus_credential: Valid credentials could not be found in any location\n1) a\n2) b\n"
    assert reason_in(lost) == "globus_credential: Valid credentials could not be found in any location"
    assert reason_in("first\n\nlast  \n") == "last"
    assert reason_in("\n") == ""


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["slurm.10", "slurm.2", "b", "slurm.1", "3", "a.1.10", "a.1.9"]
    assert sorted(names, key=natural_key) == ["3", "a.1.9", "a.1.10", "b", "slurm.1", "slurm.2", "slurm.10"]


def test_private_files_are_private_from_the_first_byte(tmp_path: Path) -> None:
    directory = private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    other = tmp_path / "other"
    other.write_text("theirs")
    (directory / "token").symlink_to(other)
    before = os.umask(0)
    try:
        path = write_private(directory / "token", "secret")
    finally:
        os.umask(before)
    assert other.read_text() == "theirs", "a link is replaced, and not written through"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("secret", 0o600)
    assert [path.name for path in directory.iterdir()] == ["token"]
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        write_private(tmp_path / "none" / "token", "secret")
    with pytest.raises(BadInput, match="cannot be created: Not a directory"):
        private_directory(other / "below")


def test_an_existing_directory_is_not_changed_and_rejected_if_others_can_write_to_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    assert stat.S_IMODE(private_directory(shared).stat().st_mode) == 0o755
    shared.chmod(0o775)
    with pytest.raises(BadInput, match=r"other users can write to .*shared: run `chmod go-w`"):
        private_directory(shared)


def test_walltimes_are_rounded_up() -> None:
    second = 10**9
    assert [walltime(ns) for ns in (1, 90 * second, 3600 * second + 1, 100 * 3600 * second)] == [
        "0:00:01",
        "0:01:30",
        "1:00:01",
        "100:00:00",
    ]


def test_options_of_the_file_take_precedence_in_sbatch() -> None:
    slurm = Slurm(4, "batch", 90 * 10**9, ("--account=x", "--time=5"))
    words = submission(slurm, Path("/s%h/spool-a"), Path("/s%h/spool-a/job.sh"), "plimsoll-a")
    assert words[0] == "sbatch" and words[-3:] == ["--account=x", "--time=5", "/s%h/spool-a/job.sh"]
    assert "--array=1-4" in words and "--partition=batch" in words and "--time=0:01:30" in words
    assert "--output=/s%%h/spool-a/slurm.%a.log" in words
    assert not any(word.startswith(("--partition", "--time")) for word in submission(
        Slurm(1), Path("/s"), Path("/s/job.sh"), "plimsoll-a"))  # fmt: skip


def test_the_job_script_names_the_token_file_and_does_not_contain_the_token() -> None:
    text = job_script(Path("/s/engine-1"), Path("/s/spool-a/token"), Path("/s/spool-a"))
    assert 'exec "/s/engine-1" agent --join "/s/spool-a/token" --name "slurm.$SLURM_ARRAY_TASK_ID"' in text


def test_the_queue_is_parsed_without_ending_tasks_and_other_lines() -> None:
    output = (
        "7|10|PENDING||batch\n7|2|RUNNING|n1|batch\n7|3|COMPLETING|n2|batch\n"
        "7|N/A|RUNNING|n1|batch\n7|[1-3]|PENDING||batch\nrubbish\n\n|||||||\n"
    )
    assert parse_queue(output) == [
        Task("slurm.2", "RUNNING", "n1", "batch"),
        Task("slurm.10", "PENDING", "", "batch"),
    ]


def test_an_engine_is_copied_once(tmp_path: Path) -> None:
    first = shared_engine(find_engine(), tmp_path)
    inode = first.stat().st_ino
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert shared_engine(find_engine(), tmp_path).stat().st_ino == inode
    first.write_bytes(first.read_bytes()[:1000])  # as a full disk leaves it
    assert shared_engine(find_engine(), tmp_path).read_bytes() == find_engine().read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    with pytest.raises(
        BadInput, match=r"hosts\.directory: the engine cannot be copied to .*: .*No such file"
    ):
        shared_engine(find_engine(), tmp_path / "none")


def test_functions_for_a_worker_show_no_token_and_need_no_plimsoll() -> None:
    handed = dask_worker.HiddenToken("hunter2")
    assert "hunter2" not in f"{handed} {handed!r} {(handed,)}"
    cloudpickle.register_pickle_by_value(dask_worker)
    try:
        sent = cloudpickle.dumps(
            (
                dask_worker.run_agent,
                dask_worker.end_agents,
                dask_worker.write_engine,
                dask_worker.facts,
                handed,
            )
        )
    finally:
        cloudpickle.unregister_pickle_by_value(dask_worker)
    without = (
        "import sys, pickle; sys.modules['plimsoll'] = None\n"
        "run_agent, *_, handed = pickle.load(sys.stdin.buffer); print(run_agent.__name__, handed, handed.text)"
    )
    result = subprocess.run([sys.executable, "-c", without], input=sent, capture_output=True, check=False)
    assert (result.stdout, result.returncode) == (b"run_agent *** hunter2\n", 0), result.stderr


def test_the_examples_differ_only_in_their_hosts() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))}
    assert list(texts) == ["dask", "gram", "join", "local", "slurm", "ssh", "testbed"]
    assert len({text[text.index("plimsoll: 1") : text.index("hosts:\n")] for text in texts.values()}) == 1
    for kind in texts:
        plan = make_plan(load_experiment(EXAMPLES / f"{kind}.yaml", environ={}), 1)
        assert plan.runs[0].config.hosts.kind == kind
