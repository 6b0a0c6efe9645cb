"""What is asked of a host over ssh: one line of plain shell each, and what its answers mean. Pure.

The login shell may be any (bash, tcsh, fish), so that all of it stands in single quotes behind `sh -c`: a script must
hold no single quote, no line end and no "!". What a login prints by itself is told from answers by the word that they
begin with. Names that stand in scripts are of letters, digits and signs that no shell takes for its own
(`raw_hosts.Directory`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.hosts.calls import CommandResult

WORD: Final = "plimsoll"
"""Before every answer."""
GRACE_S: Final = 10
"""The time that an agent has to end: it closes its segments."""
PLAIN: Final = re.compile(r"(/[A-Za-z0-9._+@%=,-]+)+")
"""Directories that are allowed in a script."""
_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Item:
    """A file that is wanted on the hosts: its name there below our directory, with the hash of its content; `mode`: as
    chmod takes it."""

    name: str
    size: int
    mode: str = "700"


def engine_name(digest: str) -> str:
    """Of the engine with this content."""
    return f"engine-{digest}"


def file_name(digest: str, name: str) -> str:
    """Of a file of a workload: in a directory of its content, so that it keeps its own name."""
    return f"file-{digest}/{_SAFE.sub('_', name).lstrip('-') or 'file'}"


def spool_name(token: str, agent: str) -> str:
    """Where an agent keeps what it measures."""
    return f"spool-{token}/{agent}"


def script(*commands: str) -> str:
    """The argument of ssh."""
    text = "; ".join(("echo", *commands))  # ends the line that a login may have begun
    assert not set(text) & set("'!\n"), text
    return f"exec sh -c '{text}'"


def ask(directory: str, engine: str, files: Iterable[str]) -> str:
    """What kind of host it is, whether we may write there, and which of our files are there."""
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


def put(directory: str, item: Item, then: str = "") -> str:
    """Takes a file from stdin. It has its name only once all of it is there; `then`: what the program is asked then."""
    target = f"{directory}/{item.name}"
    parent, _, _ = target.rpartition("/")
    return script(
        "umask 077",
        f't="{directory}/part-$(uname -n)-$$"',
        f'mkdir -p "{parent}" && cat > "$t" && test "$(wc -c < "$t")" -eq {item.size} && chmod {item.mode} "$t" '
        f'&& mv -f "$t" "{target}" || {{ rm -f "$t"; exit 1; }}',
        *([f'echo "{WORD} engine $("{target}" {then} 2>&1 | head -n 1)"'] if then else []),
        f"echo {WORD} done",
    )


def start(engine: str, directory: str, token: str, agents: Sequence[str]) -> str:
    """Starts agents that dial in, in place of those that are there. Their token comes as a line on stdin and goes to
    each over a pipe: `read` and `echo` are the shell's own, so that it shows on no command line and lies in no file.

    Ends when all have taken it, or after 10 s. Each has a session of its own where the host has `setsid`; where not,
    there is no terminal whose end would end it.
    """
    each = f"for n in {' '.join(agents)}; do"
    return script(
        "umask 077",
        f'd="{directory}"',
        f's="$d/spool-{token}"',
        _pids(f"$d/spool-{token}/$1 "),
        "read -r token",
        'up="$(command -v setsid)"',
        f'{each} kill -KILL $(pids "$n") 2>/dev/null; mkdir -p "$s/$n" && rm -f "$s/$n/agent.sock" || exit 1; '
        f'echo "$token" | $up "{engine}" agent --join - --name "$n" --directory "$s/$n" >"$s/$n/agent.log" 2>&1 & done',
        "i=0",
        f'{each} until test -S "$s/$n/agent.sock" || test $i -ge 100; do sleep 0.1 2>/dev/null || sleep 1; '
        "i=$((i+1)); done; done",
        f"echo {WORD} done",
    )


def last_words(directory: str, token: str, agents: Sequence[str]) -> str:
    """What agents have said last, and so why they do not come."""
    log = f'"{directory}/spool-{token}/$n/agent.log"'
    return script(f'for n in {" ".join(agents)}; do echo "{WORD} log $(tail -n 1 {log} 2>&1)"; done')


HOOK: Final = f"{WORD} hook\n"
"""After what a login prints, before what a command does."""


def guarded(engine: str, name: str) -> str:
    """Takes a line of shell on stdin, and ends what it starts when stdin closes: when it takes too long, or we are
    gone."""
    return f"exec env PLIMSOLL_HOST={name} {engine} guard --input -- /bin/sh"


def command_line(argv: Sequence[str], environment: Mapping[str, str], needs_root: bool) -> str:
    """A command as a line of shell for `guarded`. It may contain secrets, so it must not appear on
    a command line."""
    root = 'test "$(id -u)" = 0 || { echo "it needs root there" >&2; exit 1; }; ' if needs_root else ""
    given = "".join(f"export {name}={_quoted(value)}; " for name, value in environment.items())
    words = " ".join(_quoted(word) for word in argv)
    newline = """nl="$(printf '\\nx')"; nl="${nl%x}"; """
    return f"{newline}{root}{given}printf '%s\\n' '{HOOK.strip()}'; exec {words} 2>&1 </dev/null\n"


def _quoted(word: str) -> str:
    """For a POSIX shell, on one line."""
    return shlex.quote(word).replace("\n", "'\"$nl\"'")


def said_by_command(out: str) -> str:
    """What a command has printed."""
    return out.partition(HOOK)[2]


def _pids(of: str | None) -> str:
    """Defines `pids`: processes of engines in $d. With an argument, $1 in `of`, those alone that have `of` in their
    command line."""
    # One `ls` for all processes: a `readlink` for each would take a fork for each, on hosts with thousands.
    engines = (
        'ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.* /proc/\\([0-9]*\\)/exe -> $d/engine-.*|\\1|p"'
    )
    holds = f'tr "\\0" " " < "/proc/$p/cmdline" 2>/dev/null | grep -q -F "{of}"' if of else "true"
    return f'pids() {{ for p in $({engines}); do if test -z "$1" || {holds}; then echo "$p"; fi; done; }}'


def clean(directory: str, token: str | None, keep_engine: bool, discard: bool) -> str:
    """Ends agents and removes files: of one experiment by its `token`, of all where it is None. The engine and files of
    workloads (they may be keys) go when nobody else runs from there: neither a process on this host, nor one on
    another host with the same home, which we see by its spool only.

    Says what is kept since it holds segments, or is in use by others, and what is left against our will.
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
        'n=0; while test -n "$(pids ours)" && test $n -lt 3; do sleep 1; n=$((n+1)); done',
        f'for s in "$d"/{spools}; do if test -e "$s"; then '
        + ("" if discard else f'if {with_segments}; then say kept "$s"; continue; fi; ')
        + 'rm -rf "$s"; test -e "$s" && say left "$s"; fi; done',
        f'{used}{files} rm -rf "$f"; test -e "$f" && say left "$f"; fi; done{"; fi" if used else ""}',
        'for p in $(pids ours); do say left "process $p"; done',
        'rmdir "$d" 2>/dev/null',
        "say done",
    )


def _home(directory: str) -> str:
    return f"$HOME{directory[1:]}" if directory.startswith("~") else directory


def answers(out: str) -> dict[str, list[str]]:
    """The answers in what came by stdout, by their first word."""
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == WORD:
            key, _, value = rest.partition(" ")
            found.setdefault(key, []).append(value.strip())
    return found


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


def reason(done: CommandResult) -> str:
    """Why a command did not do what it should, in one line."""
    if done.trouble:
        return f"it does not answer: {done.trouble}"
    for pattern, said in _TROUBLE if done.code == 255 else ():
        if re.search(pattern, done.err):
            quoted = done.last_line
            return said if "host key" in said or not quoted else f"{said} ({quoted})"
    return done.last_line or f"ssh ended with exit status {done.code}"
