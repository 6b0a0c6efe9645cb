"""Very many testers, agents and transactions, controller and agents together on this machine.

`python bench/hosts.py [--only NAME ...] [--quick]`, with NAME ten-thousand, hundred-thousand, quic-agents, bring-in or
memory. `--quick` proves in a few minutes that all of it works; its figures mean little. The tables go into README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

import hosts_links
import hosts_testers
import parts

BENCHES: Final[dict[str, Callable[[bool], None]]] = {
    "ten-thousand": hosts_testers.ten_thousand,
    "hundred-thousand": hosts_testers.hundred_thousand,
    "quic-agents": hosts_links.quic_agents,
    "bring-in": hosts_links.bring_in,
    "memory": hosts_links.memory,
}


def main() -> None:
    """All, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=list(BENCHES))
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    print(f"{parts.machine()}\n", flush=True)
    for name in args.only or BENCHES:
        print(f"### {name}\n", flush=True)
        BENCHES[name](args.quick)


if __name__ == "__main__":
    main()
