"""`plimsoll VERB ...` and `plimsoll URL ...`: finds the verb's file and turns exceptions into messages and exit codes.

A verb's module is imported only when it is called: numpy, pydantic and altair take longer to import than a person
waits for `--help`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from typing import Any, Protocol, cast

from plimsoll import __version__
from plimsoll.errors import ExitCode, PlimsollError
from plimsoll.printable import printable_lines

GROUPS = {
    "experiments": {
        "run": "run an experiment file and write its report",
        "capacity": "find the highest rate at which a URL meets a rule",
        "suite": "run a set of experiment files against an existing service",
        "plan": "show what an experiment file would do, without starting anything",
        "status": "list the experiments running on this host, or show the progress of one",
        "stop": "stop a running experiment cleanly",
    },
    "results": {
        "show": "print the summary of results",
        "analyse": "repeat the analysis of results on disk, or analyse a CSV table",
        "compare": "report whether new results are slower than old ones",
        "history": "show the levels of one experiment over time, and when they changed",
        "report": "write the report of results as one HTML file, or its charts",
        "check": "verify a results directory",
        "export": "write transactions, histograms or the table of runs for other tools",
        "collect": "fetch measurements that lost agents kept on their hosts",
    },
    "setup": {
        "init": "write a commented experiment file to start from",
        "import": "write an experiment file that follows the requests of an access log",
        "schema": "print the JSON Schema of the experiment file",
        "hosts": "check the hosts of a file, or clean them up",
        "testbed": "start emulated hosts and links on this machine",
        "serve": "run one reference service on its own",
        "doctor": "check this host for limits that distort measurements",
    },
    "traces": {
        "trace": "record, show, compare and export the file accesses of an application",
        "replay": "replay a trace on a file system",
    },
}
"""Verbs with one line of help each, by the folder of their modules."""
TITLES = {
    "experiments": "Experiments",
    "results": "Results",
    "setup": "Files, hosts, services",
    "traces": "I/O traces",
}
VERBS = {name: line for group in GROUPS.values() for name, line in group.items()}
SPELLINGS = {"analyze": "analyse"}
MODULES = {"import": "import_log"}
"""Modules of verbs that are keywords of Python."""
# The BLAS of numpy starts one spinning thread per core at import. They would compete with the testers for the measured
# cores, and the matrices here are too small to gain from them. numpy reads the variable once, at its first import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A user ID without an entry in the system's user database, as in many containers, has no home directory, and some
# libraries then fail at import. Docker uses "/" in that case.
if os.path.expanduser("~") == "~":  # noqa: PTH111  # pathlib raises here
    os.environ["HOME"] = "/"

ADDRESS = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|\[[0-9a-fA-F:]+\])(:\d+)?(/.*)?$|[\w-]+:\d+(/.*)?$")
"""A word that is probably a URL without http://."""
QUICK = "http://HOST/PATH -c 50 -z 30s -q 1000 [--json]"


class Verb(Protocol):
    """The interface of a verb's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the verb's arguments."""

    def main(self, args: argparse.Namespace) -> int:
        """Runs the verb and returns the exit code. `args.words`: the command line, for a verb that restarts itself."""


def main(argv: list[str] | None = None) -> int:
    """Entry point of the `plimsoll` command."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(words)
    except PlimsollError as error:
        print(printable_lines(f"plimsoll: {error}"), file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("plimsoll: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output closed the pipe. Without this Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.PASSED)
    except OSError as error:
        # A full disk, a removed directory, no more file descriptors: an error of the host that no caller handled. The
        # measurements made so far are on disk.
        print(printable_lines(f"plimsoll: {error}"), file=sys.stderr)
        return int(ExitCode.ERROR)


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return int(ExitCode.PASSED if words else ExitCode.BAD_INPUT)
    if words[0] in ("-V", "--version", "version"):
        print(f"plimsoll {__version__}")
        return int(ExitCode.PASSED)
    name = SPELLINGS.get(words[0], words[0])
    if name in VERBS:
        verb = _verb(name)
        parser = argparse.ArgumentParser(prog=f"plimsoll {words[0]}", description=_sentence(VERBS[name]))
        verb.add_arguments(parser)
        parser.set_defaults(words=words)
        return verb.main(parser.parse_args(words[1:]))
    if any(re.match(r"[a-z]+://", word) for word in words):
        verb = _module("experiments", "quick")
        cast(Any, verb).check_words(words)
        parser = argparse.ArgumentParser(
            prog="plimsoll", description="Generate load on one URL, without an experiment file."
        )
        verb.add_arguments(parser)
        return verb.main(parser.parse_args(words))
    return _unknown(words[0])


def _verb(name: str) -> Verb:
    return _module(next(group for group, verbs in GROUPS.items() if name in verbs), MODULES.get(name, name))


def _module(group: str, name: str) -> Verb:
    return cast(Verb, importlib.import_module(f"plimsoll.cli.{group}.{name}"))


def _unknown(word: str) -> int:
    import difflib

    if ADDRESS.match(word):
        print(f'plimsoll: "{word}" is neither a verb nor a URL; did you mean http://{word}?', file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    near = difflib.get_close_matches(word, VERBS, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    print(f'plimsoll: "{word}" is neither a verb nor a URL{hint} See plimsoll --help.', file=sys.stderr)
    return int(ExitCode.BAD_INPUT)


def overview() -> str:
    """The text of `plimsoll --help`."""
    width = max(map(len, VERBS))
    verbs = "\n\n".join(
        "\n".join([f"{TITLES[group]}:", *(f"  {name:<{width}}  {line}" for name, line in lines.items())])
        for group, lines in GROUPS.items()
    )
    return (
        "Plimsoll measures distributed data services: it generates load, runs experiments and records I/O traces.\n\n"
        "usage: plimsoll VERB ...      (plimsoll VERB --help lists the options of a verb)\n"
        f"       plimsoll {QUICK}\n\n"
        f"{verbs}\n\n"
        "exit codes: 0 passed, 99 a threshold failed, 2 bad input, 97 measurement invalid,\n"
        "            98 agents lost, 130 interrupted, 1 other error\n"
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    sys.exit(main())
