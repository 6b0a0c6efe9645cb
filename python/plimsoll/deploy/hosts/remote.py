"""What is asked of a host over ssh: one line of plain shell each, and what its answers mean. Pure.

The login shell may be any (bash, tcsh, fish), so that all of it stands in single quotes behind `sh -c`: a script must
hold no single quote, no line end and no "!". What a login prints by itself is told from answers by the word that they
begin with. Names that stand in scripts are of letters, digits and signs that no shell takes for its own
(`raw_hosts.Directory`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.hosts.calls import Done

WORD: Final = "plimsoll"
"""Before every answer."""
GRACE_S: Final = 10
"""An agent that is asked to end may take so long: it closes its segments."""
PLAIN: Final = re.compile(r"(/[A-Za-z0-9._+@%=,-]+)+")
"""Directories that may stand in a script."""
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
    text = "; ".join(commands)
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


def clean(directory: str, token: str | None, keep_engine: bool, discard: bool) -> str:
    """Ends agents and removes files: of one experiment by its `token`, of all where it is None.

    Says what is kept since it holds segments, or is in use by others, and what is left against our will.
    """
    spools = f"spool-{token}" if token else "spool-*"
    # One `ls` for all processes: a `readlink` for each would take a fork for each, on hosts with thousands.
    engines = (
        'ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n "s|.* /proc/\\([0-9]*\\)/exe -> $d/engine-.*|\\1|p"'
    )
    of_token = (
        f'tr "\\0" " " < "/proc/$p/cmdline" 2>/dev/null | grep -q -F "$d/spool-{token}/"' if token else "true"
    )
    pids = f'pids() {{ for p in $({engines}); do if test -z "$1" || {of_token}; then echo "$p"; fi; done; }}'
    with_segments = 'find "$s" -name "*.arrow" -type f | grep -q .'
    files = 'for f in "$d"/engine-* "$d"/file-* "$d"/part-*; do if test -e "$f"; then'
    used = "" if token is None else 'if test -n "$(pids)"; then say kept "$d"/engine-*; else '
    return script(
        f'd="{_home(directory)}"',
        f'say() {{ echo "{WORD} $*"; }}',
        'test -d "$d" || { say done; exit 0; }',
        'd="$(cd "$d" && pwd -P)"',
        pids,
        "kill -TERM $(pids ours) 2>/dev/null",
        f'n=0; while test -n "$(pids ours)" && test $n -lt {GRACE_S}; do sleep 1; n=$((n+1)); done',
        "kill -KILL $(pids ours) 2>/dev/null",
        'n=0; while test -n "$(pids ours)" && test $n -lt 3; do sleep 1; n=$((n+1)); done',
        f'for s in "$d"/{spools}; do if test -e "$s"; then '
        + ("" if discard else f'if {with_segments}; then say kept "$s"; continue; fi; ')
        + 'rm -rf "$s"; test -e "$s" && say left "$s"; fi; done',
        *(
            []
            if keep_engine
            else [
                f'{used}{files} rm -rf "$f"; test -e "$f" && say left "$f"; fi; done{"; fi" if used else ""}'
            ]
        ),
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
        "its host key is not the one that is known here: somebody else may answer in its place. If it was set up anew, "
        "ssh-keygen -R HOST forgets the old key",
    ),
    (
        r"Host key verification failed|No \S+ host key is known|host key.*(?:not known|unknown)",
        "its host key is not known here: log in once by hand to look at it, or say `unknown_host_keys: accept`",
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


def reason(done: Done) -> str:
    """Why a command did not do what it should, in one line."""
    if done.trouble:
        return f"it does not answer: {done.trouble}"
    for pattern, said in _TROUBLE if done.code == 255 else ():
        if re.search(pattern, done.err):
            quoted = done.last_line
            return said if "host key" in said or not quoted else f"{said} ({quoted})"
    return done.last_line or f"ssh ended with exit status {done.code}"
