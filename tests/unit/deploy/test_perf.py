"""Stacks of samples: the text of perf, the folded form, process trees, and hosts without perf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest

from plimsoll.deploy.perf.permission import perf_problem
from plimsoll.deploy.perf.recording import descendants
from plimsoll.deploy.perf.stacks import Profile, fold, merged, parse_folded
from plimsoll.deploy.programs import ProgramSearch
from plimsoll.errors import DamagedResults

SCRIPT = (Path(__file__).resolve().parents[2] / "data" / "perf" / "script.txt").read_text()
"""Printed by `perf script` 6.1 of a gateway and a PostgreSQL server under load."""


def test_all_samples_of_the_text_of_perf_are_folded() -> None:
    stacks, left_out = fold(SCRIPT.splitlines())
    assert sum(stacks.values()) == 35
    assert left_out == 0
    processes = Counter[str]()
    for (process, *_), count in stacks.items():
        processes[process] += count
    assert set(processes) == {"plimsoll-engine", "postgres"}
    outermost = {stack[1] for stack in stacks if stack[0] == "postgres"}
    assert "__libc_start_call_main" in outermost  # the callers come first
    received = (
        "plimsoll-engine",
        "<&mio::net::tcp::stream::TcpStream as std::io::Read>::read",
        "__libc_recv",
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "__x64_sys_recvfrom",
        "__sys_recvfrom",
    )
    assert stacks[received] == 1


def test_functions_without_a_name_are_counted_and_named_by_their_file() -> None:
    stacks, _ = fold(SCRIPT.splitlines())
    profile = Profile(stacks, 99, 1.0, 2.0)
    names = {name for stack in stacks for name in stack[1:] if name.startswith("[")}
    assert names == {"[postgres]", "[pg_stat_statements.so]", "[unknown]"}
    frames, unnamed = profile.frames
    assert frames == sum(line.startswith("\t") for line in SCRIPT.splitlines())
    assert unnamed == SCRIPT.count(" [unknown] (")
    innermost = [block.splitlines()[1] for block in SCRIPT.strip().split("\n\n")]
    assert profile.unnamed == sum(" [unknown] (" in line for line in innermost)


def test_the_samples_of_the_guard_are_left_out() -> None:
    stacks, left_out = fold(SCRIPT.splitlines(), guard=8402)
    expected = SCRIPT.count("plimsoll-engine  8402 ")
    assert left_out == expected > 0
    assert sum(stacks.values()) == 35 - expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("\t 1 std::vector<int, A<(B)1> >::f(int) (/x y (deleted))", "std::vector<int, A<(B)1> >::f(int)"),
        ("\t 1 a;b\x07c (/x)", "a:b c"),
        ("\t 1 core::f::h0123456789abcdef (/x)", "core::f"),
        ("\t 1 [unknown] (/lib/a.so (deleted))", "[a.so (deleted)]"),
        ("\t 1 [unknown] ([kernel.kallsyms])", "[kernel.kallsyms]"),
        ("\tgarbage", "[unknown]"),
    ],
)
def test_names_of_functions(line: str, name: str) -> None:
    assert fold(["my app  7 ", line, ""])[0] == {("my app", name): 1}


def test_a_sample_without_functions_is_a_process() -> None:
    assert fold(["a  1 ", "", "b  2 "])[0] == {("a",): 1, ("b",): 1}


def test_a_profile_is_read_as_it_was_written() -> None:
    stacks, _ = fold(SCRIPT.splitlines())
    profile = Profile(stacks, 99, 1.25, 4.5, reported=36, guard=1)
    text = profile.to_text()
    assert text.startswith("# plimsoll.perf/1 {")
    assert parse_folded(text, "perf.folded") == profile
    assert merged([profile, profile]) == {stack: 2 * count for stack, count in stacks.items()}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a plimsoll.perf file"),
        ("a;b 3\n", "not a plimsoll.perf file"),
        ('# plimsoll.perf/2 {"hz": 99}\n', "use a newer Plimsoll"),
        ('# plimsoll.perf/1 {"hz": 99}\n', "cannot be read"),
        (
            '# plimsoll.perf/1 {"hz": 99, "began_s": 0, "seconds": 1, "reported": 1, "guard": 0}\na;b\n',
            "cannot be read",
        ),
    ],
)
def test_a_damaged_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(DamagedResults, match=why):
        parse_folded(text, "perf.folded")


def test_a_process_tree_is_found_in_the_table_of_processes() -> None:
    stats = "1 (init) S 0 1\n7 (a b) S 1 7\n8 (x) 9 1 (y) R 7 8\n9 (z\\n) S 8 9\n10 (other) S 1 10\n\nbroken"
    assert descendants(stats, 7) == [7, 8, 9]
    assert descendants(stats, 99) == [99]


class Search(ProgramSearch):
    """A host with given programs and answers."""

    host = "db1"

    def __init__(self, has_perf: bool, code: int | None, text: str, level: str) -> None:
        self._has_perf, self._answer, self._level = has_perf, (code, text), level

    @property
    def override(self) -> str | None:
        return None

    @property
    def path(self) -> str:
        return "/bin"

    def are_programs(self, paths: Sequence[PurePath]) -> list[bool]:
        return [self._has_perf] * len(paths)

    def matching(self, pattern: str) -> list[PurePath]:
        return []

    def resolve(self, path: PurePath) -> PurePath:
        return path

    def output(self, command: Sequence[str | PurePath], timeout_s: float = 1.0) -> tuple[int | None, str]:
        return (0, f"{self._level}\n") if command[0] == "cat" else self._answer


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        (Search(True, 0, "", "2"), ""),
        (Search(False, 0, "", "2"), "perf was not found on db1: apt-get install linux-perf"),
        (
            Search(True, 255, "Error:\nAccess is limited\n", "4"),
            "the kernel of db1 does not allow perf, because kernel.perf_event_paranoid is 4: "
            "sysctl -w kernel.perf_event_paranoid=2",
        ),
        (Search(True, 255, "Error:\nno such event\n", "2"), "perf fails on db1: no such event"),
        (Search(True, None, "", "2"), "perf fails on db1: it took too long"),
    ],
)
def test_a_host_where_perf_cannot_take_samples(search: Search, problem: str) -> None:
    assert perf_problem(search) == problem
