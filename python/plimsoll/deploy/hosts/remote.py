"""Shell scripts for hosts that are reached over ssh, and the meaning of their answers. Each script is one
line of plain shell. Pure.

The login shell may be any, such as bash, tcsh or fish. So the script is in single quotes behind `sh -c`, and
it must not contain single quotes, line ends or "!". Each answer begins with a word, which distinguishes it
from other output of the login. Names in scripts consist of letters, digits and signs that no shell interprets
(`Directory` in plan/schema/hosts.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.hosts.calls import CommandResult

WORD: Final = "plimsoll"
"""The prefix of every answer."""
GRACE_S: Final = 10
"""The time that an agent has to end: it closes its segments."""
PLAIN: Final = re.compile(r"(/[A-Za-z0-9._+@%=,-]+)+")
"""Directories that are allowed in a script."""
_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Item:
    """A file for the hosts: its name there, below Plimsoll's directory, with the hash of its content. `mode`:
    as in chmod."""

    name: str
    size: int
    mode: str = "700"


def engine_name(digest: str) -> str:
    """The name of an engine with this content."""
    return f"engine-{digest}"


def file_name(digest: str, name: str) -> str:
    """The name of a file of a workload. Its directory contains the hash, so that the file keeps its own
    name."""
    return f"file-{digest}/{_SAFE.sub('_', name).lstrip('-') or 'file'}"


def spool_name(token: str, agent: str) -> str:
    """The directory in which an agent keeps its segments."""
    return f"spool-{token}/{agent}"


def script(*commands: str) -> str:
    """The argument of ssh."""
    text = "; ".join(("echo", *commands))  # ends an unfinished line of the login
    assert not set(text) & set("'!\n"), text
    return f"exec sh -c '{text}'"


def inspection_script(directory: str, engine: str, files: Iterable[str]) -> str:
    """Reports the system of the host, whether the directory is writable, and which of Plimsoll's files exist
    there."""
    return script(
        "umask 077",
        f'd="{_home(directory)}"',
        f'say() {{ echo "{WORD} $*"; }}',
        'say uname "$(uname -sm)"',
        'why="$(mkdir -p "$d" 2>&1)" || { say cannot "$why"; exit 0; }',
        'd="$(cd "$d" && pwd -P)"',
        't="$d/part-$(uname -n)-$$"',
        'why="$( { touch "$t" && rm -f "$t"; } 2>&1)" || { say cannot "$why"; exit 0; }',
        'say directory "$d"',
        f'test -f "$d/{engine}" && say engine "$("$d/{engine}" version 2>&1 | head -n 1)"',
        *(f'test -f "$d/{name}" && say file "{name}"' for name in files),
        "say done",
    )


def copy_script(directory: str, item: Item, argument: str = "") -> str:
    """Reads a file from stdin. The file gets its name after all of it has arrived. `argument`: the argument
    with which the program is then called; empty: it is not called."""
    target = f"{directory}/{item.name}"
    parent, _, _ = target.rpartition("/")
    return script(
        "umask 077",
        f't="{directory}/part-$(uname -n)-$$"',
        f'mkdir -p "{parent}" && cat > "$t" && test "$(wc -c < "$t")" -eq {item.size} && chmod {item.mode} "$t" '
        f'&& mv -f "$t" "{target}" || {{ rm -f "$t"; exit 1; }}',
        *([f'echo "{WORD} engine $("{target}" {argument} 2>&1 | head -n 1)"'] if argument else []),
        f"echo {WORD} done",
    )


SERVICES: Final = ".services"
"""The directory of services below the spool of an experiment. No agent can have this name."""


def services_name(token: str) -> str:
    """The directory of the services of an experiment on a host."""
    return f"spool-{token}/{SERVICES}"


def start_script(engine: str, directory: str, token: str, agents: Sequence[str]) -> str:
    """Starts agents that dial in, and replaces those that run. The token is read as a line from stdin and
    passed to each agent over a pipe. `read` and `echo` are built into the shell, so the token appears on no
    command line and in no file.

    Ends when all agents have read the token, or after 10 s. If the host has `setsid`, each agent has its own
    session. Otherwise there is no terminal whose end would end the agent.
    """
    for_each_agent = f"for n in {' '.join(agents)}; do"
    return script(
        "umask 077",
        f'd="{directory}"',
        f's="$d/spool-{token}"',
        _pids(f"$d/spool-{token}/$1 "),
        "read -r token",
        'up="$(command -v setsid)"',
        f'{for_each_agent} kill -KILL $(pids "$n") 2>/dev/null; '
        'mkdir -p "$s/$n" && rm -f "$s/$n/agent.sock" || exit 1; '
        f'echo "$token" | $up "{engine}" agent --join - --name "$n" --directory "$s/$n" >"$s/$n/agent.log" 2>&1 & done',
        "i=0",
        f'{for_each_agent} until test -S "$s/$n/agent.sock" || test $i -ge 100; do sleep 0.1 2>/dev/null || sleep 1; '
        "i=$((i+1)); done; done",
        f"echo {WORD} done",
    )


def last_output_script(directory: str, token: str, agents: Sequence[str]) -> str:
    """Reports the last output of agents, to find out why they do not connect."""
    log = f'"{directory}/spool-{token}/$n/agent.log"'
    return script(f'for n in {" ".join(agents)}; do echo "{WORD} log $(tail -n 1 {log} 2>&1)"; done')


HOOK: Final = f"{WORD} hook\n"
"""Separates the output of a login from the output of a command."""


def guarded_shell(engine: str, name: str) -> str:
    """Reads a line of shell from stdin, and ends its processes when stdin closes: after the timeout, or if
    the lab has ended."""
    return f"exec env PLIMSOLL_HOST={name} {engine} guard --input -- /bin/sh"


def command_line(argv: Sequence[str], environment: Mapping[str, str], needs_root: bool) -> str:
    """A command as a line of shell for `guarded_shell`. It may contain secrets, so it must not appear on
    a command line."""
    root = (
        'test "$(id -u)" = 0 || { echo "the command needs root on the host" >&2; exit 1; }; '
        if needs_root
        else ""
    )
    exports = "".join(f"export {name}={_quoted(value)}; " for name, value in environment.items())
    words = " ".join(_quoted(word) for word in argv)
    newline = """nl="$(printf '\\nx')"; nl="${nl%x}"; """
    return f"{newline}{root}{exports}printf '%s\\n' '{HOOK.strip()}'; exec {words} 2>&1 </dev/null\n"


def _quoted(word: str) -> str:
    """A word for a POSIX shell, on one line."""
    return shlex.quote(word).replace("\n", "'\"$nl\"'")


def command_output(out: str) -> str:
    """The output of a command, without that of the login."""
    return out.partition(HOOK)[2]


def _pids(of: str | None) -> str:
    """Defines the shell function `pids`: processes of engines in $d. With an argument ($1), only processes
    that have `of` in their command line."""
    # One `ls` for all processes. `readlink` would need a fork for each process, and a host may have thousands.
    engines = (
        'ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.* /proc/\\([0-9]*\\)/exe -> $d/engine-.*|\\1|p"'
    )
    holds = f'tr "\\0" " " < "/proc/$p/cmdline" 2>/dev/null | grep -q -F "{of}"' if of else "true"
    return f'pids() {{ for p in $({engines}); do if test -z "$1" || {holds}; then echo "$p"; fi; done; }}'


def _servers(spools: str) -> str:
    """Defines the shell functions `outside`: directories of servers outside of $d; and `servers`: processes that work
    in these directories or in the directories of services."""
    listed = f'"$d"/{spools}/{SERVICES}'
    return (
        f'outside() {{ cat {listed}/outside 2>/dev/null | grep -x "/var/tmp/plimsoll-[0-9a-f]*"; }}; '
        f"servers() {{ for w in $(outside) {listed}; do "
        'ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n "s|.* /proc/\\([0-9]*\\)/cwd -> $w/.*|\\1|p"; done; }'
    )


GONE: Final = 'n=0; while test -n "$(pids ours)$(servers)" && test $n -lt 3; do sleep 1; n=$((n+1)); done'
"""Waits up to 3 s until no process of `pids` and `servers` is left."""


def cleanup_script(directory: str, token: str | None, keep_engine: bool, discard: bool) -> str:
    """Ends agents and removes files: of one experiment by its `token`, or of all experiments if it is None.
    The engine and the files of workloads (which may be keys) are removed if no other agent uses them: neither
    a process on this host, nor one on another host with the same home directory, which is only visible by its
    spool.

    The servers of services end with their guards, which are processes of the engine. A server whose guard was killed
    is found by its working directory. `outside` is a directory of servers that is not below Plimsoll's directory.

    Reports what is kept because it contains segments or is in use, and what could not be removed.
    """
    spools = f"spool-{token}" if token else "spool-*"
    with_segments = 'find "$s" -name "*.arrow" -type f | grep -q .'
    engine = "" if keep_engine else '"$d"/engine-* "$d"/part-* '
    files = f'for f in {engine}"$d"/file-*; do if test -e "$f"; then'
    kept = ":" if keep_engine else 'say kept "$d"/engine-*'
    used = "" if token is None else f'if test -n "$(pids)$(others)"; then {kept}; else '
    return script(
        f'd="{_home(directory)}"',
        f'say() {{ echo "{WORD} $*"; }}',
        'test -d "$d" || { say done; exit 0; }',
        'd="$(cd "$d" && pwd -P)"',
        _pids(f"$d/spool-{token}/" if token else None),
        f'others() {{ for s in "$d"/spool-*; do case "$s" in "$d/spool-{token}"|*"*") ;; *) echo "$s";; esac; done; }}',
        "kill -TERM $(pids ours) 2>/dev/null",
        f'n=0; while test -n "$(pids ours)" && test $n -lt {GRACE_S}; do sleep 1; n=$((n+1)); done',
        "kill -KILL $(pids ours) 2>/dev/null",
        f"{_servers(spools)}",
        "kill -KILL $(servers) 2>/dev/null",
        GONE,
        # Their guards remove control groups. These are those of guards that were killed.
        'for e in "$d"/engine-*; do test -x "$e" && "$e" limits clean >/dev/null 2>&1; done',
        'for p in $(servers); do say left "process $p"; done',
        'for o in $(outside); do rm -rf "$o"; test -e "$o" && say left "$o"; done',
        f'for s in "$d"/{spools}; do if test -e "$s"; then '
        + ("" if discard else f'if {with_segments}; then say kept "$s"; continue; fi; ')
        + 'rm -rf "$s"; test -e "$s" && say left "$s"; fi; done',
        f'{used}{files} rm -rf "$f"; test -e "$f" && say left "$f"; fi; done{"; fi" if used else ""}',
        # A cleanup of another host with the same home directory may run an engine for a moment, as above.
        GONE,
        'for p in $(pids ours); do say left "process $p"; done',
        'rmdir "$d" 2>/dev/null',
        "say done",
    )


def _home(directory: str) -> str:
    return f"$HOME{directory[1:]}" if directory.startswith("~") else directory


def parse_answers(out: str) -> dict[str, list[str]]:
    """The answers in the output of a script, by their first word."""
    by_word: dict[str, list[str]] = {}
    for line in out.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == WORD:
            key, _, value = rest.partition(" ")
            by_word.setdefault(key, []).append(value.strip())
    return by_word


_TROUBLE: Final[Sequence[tuple[str, str]]] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key differs from the known one: another machine may answer in its place. If the host was "
        "reinstalled, remove the old key with `ssh-keygen -R HOST`",
    ),
    (
        r"Host key verification failed|No \S+ host key is known|host key.*(?:not known|unknown)",
        "its host key is not known: log in once by hand to check it, or set `unknown_host_keys: accept`",
    ),
    (
        r"Permission denied|Too many authentication failures|No more authentication methods",
        "it refuses the login",
    ),
    (r"Could not resolve hostname|Name or service not known", "there is no host of this name"),
    (r"Connection timed out|timed out|No answer", "it does not answer"),
    (
        r"Connection refused|No route to host|Network is unreachable|Connection (?:reset|closed)",
        "it cannot be reached",
    ),
)


def failure_reason(result: CommandResult) -> str:
    """Why a command failed, in one line."""
    if result.trouble:
        return f"it does not answer: {result.trouble}"
    for pattern, explanation in _TROUBLE if result.code == 255 else ():
        if re.search(pattern, result.err):
            quoted = result.last_line
            return explanation if "host key" in explanation or not quoted else f"{explanation} ({quoted})"
    return result.last_line or f"ssh ended with exit status {result.code}"
