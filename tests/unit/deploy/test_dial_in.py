"""What kinds that dial in have in common, and what they say to others, without anybody who dials."""

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
from plimsoll.deploy.hosts.dial_in import in_order
from plimsoll.deploy.hosts.join import filled
from plimsoll.deploy.hosts.private import private_directory, write_private
from plimsoll.deploy.hosts.slurm import Task, job_script, queue, shared_engine, submission, walltime
from plimsoll.errors import BadInput
from plimsoll.plan import load_experiment, make_plan
from plimsoll.plan.model_hosts import Slurm

EXAMPLES = Path(__file__).parents[3] / "examples" / "hosts"


def test_a_template_keeps_braces_that_are_not_ours() -> None:
    words = {"token": "/t", "name": "join", "count": "3", "engine": "/e"}
    assert filled("{engine} {token} {name}.${INDEX} {count}", words) == "/e /t join.${INDEX} 3"
    kept = "${token} ${name:-x} {other} { token } {{}} awk '{print $1}' spec: {a: 1}"
    assert filled(kept, words) == kept
    assert filled("{name}", {**words, "name": "{token}"}) == "{token}", (
        "what was filled in is not filled again"
    )


def test_names_are_in_the_order_of_their_numbers() -> None:
    names = ["slurm.10", "slurm.2", "b", "slurm.1", "3", "a.1.10", "a.1.9"]
    assert sorted(names, key=in_order) == ["3", "a.1.9", "a.1.10", "b", "slurm.1", "slurm.2", "slurm.10"]


def test_private_files_are_private_from_the_first_byte(tmp_path: Path) -> None:
    place = private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    other = tmp_path / "other"
    other.write_text("theirs")
    (place / "token").symlink_to(other)
    before = os.umask(0)
    try:
        path = write_private(place / "token", "secret")
    finally:
        os.umask(before)
    assert other.read_text() == "theirs", "a link is replaced, and not written through"
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("secret", 0o600)
    assert [one.name for one in place.iterdir()] == ["token"]
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        write_private(tmp_path / "none" / "token", "secret")
    with pytest.raises(BadInput, match="cannot be created: Not a directory"):
        private_directory(other / "below")


def test_a_directory_that_is_there_stays_as_it_is_unless_others_can_write_to_it(tmp_path: Path) -> None:
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


def test_options_of_the_file_have_the_last_word_with_sbatch() -> None:
    slurm = Slurm(4, "batch", 90 * 10**9, ("--account=x", "--time=5"))
    words = submission(slurm, Path("/s%h/spool-a"), Path("/s%h/spool-a/job.sh"), "plimsoll-a")
    assert words[0] == "sbatch" and words[-3:] == ["--account=x", "--time=5", "/s%h/spool-a/job.sh"]
    assert "--array=1-4" in words and "--partition=batch" in words and "--time=0:01:30" in words
    assert "--output=/s%%h/spool-a/slurm.%a.log" in words
    assert not any(word.startswith(("--partition", "--time")) for word in submission(
        Slurm(1), Path("/s"), Path("/s/job.sh"), "plimsoll-a"))  # fmt: skip


def test_the_job_script_names_the_token_and_does_not_hold_it() -> None:
    text = job_script(Path("/s/engine-1"), Path("/s/spool-a/token"), Path("/s/spool-a"))
    assert 'exec "/s/engine-1" agent --join "/s/spool-a/token" --name "slurm.$SLURM_ARRAY_TASK_ID"' in text


def test_a_queue_is_read_without_what_ends_or_is_no_task() -> None:
    said = (
        "7|10|PENDING||batch\n7|2|RUNNING|n1|batch\n7|3|COMPLETING|n2|batch\n"
        "7|N/A|RUNNING|n1|batch\n7|[1-3]|PENDING||batch\nrubbish\n\n|||||||\n"
    )
    assert queue(said) == [
        Task("slurm.2", "RUNNING", "n1", "batch"),
        Task("slurm.10", "PENDING", "", "batch"),
    ]


def test_an_engine_is_shared_once(tmp_path: Path) -> None:
    first = shared_engine(find_engine(), tmp_path)
    inode = first.stat().st_ino
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert shared_engine(find_engine(), tmp_path).stat().st_ino == inode
    first.write_bytes(first.read_bytes()[:1000])  # as a full disk leaves it
    assert shared_engine(find_engine(), tmp_path).read_bytes() == find_engine().read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [first.name]
    with pytest.raises(
        BadInput, match=r"hosts\.directory: the engine cannot be copied to .*: .*No such file"
    ):
        shared_engine(find_engine(), tmp_path / "none")


def test_what_goes_to_a_worker_shows_no_token_and_needs_nothing_of_ours() -> None:
    handed = dask_worker.Handed("hunter2")
    assert "hunter2" not in f"{handed} {handed!r} {(handed,)}"
    cloudpickle.register_pickle_by_value(dask_worker)
    try:
        sent = cloudpickle.dumps(
            (dask_worker.carry, dask_worker.end, dask_worker.put, dask_worker.facts, handed)
        )
    finally:
        cloudpickle.unregister_pickle_by_value(dask_worker)
    without = (
        "import sys, pickle; sys.modules['plimsoll'] = None\n"
        "carry, *_, handed = pickle.load(sys.stdin.buffer); print(carry.__name__, handed, handed.text)"
    )
    done = subprocess.run([sys.executable, "-c", without], input=sent, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"carry *** hunter2\n", 0), done.stderr


def test_the_examples_differ_in_their_hosts_alone() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))}
    assert list(texts) == ["dask", "join", "local", "slurm", "ssh", "testbed"]
    assert len({text[text.index("plimsoll: 1") : text.index("hosts:\n")] for text in texts.values()}) == 1
    for kind in texts:
        plan = make_plan(load_experiment(EXAMPLES / f"{kind}.yaml", environ={}), 1)
        assert plan.runs[0].config.hosts.kind == kind
