"""A Dask cluster on this host, for a service of kind `command`: python3 dask_cluster.py DIRECTORY ADDRESS PORT SLOTS.

One worker process with SLOTS threads, so that each thread waits for one job. Prints "cluster is ready".
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    try:
        from distributed import LocalCluster
    except ImportError:
        sys.exit(
            f"{sys.executable} has no package `distributed`: pip install 'plimsoll[dask]', or --set vars.python=..."
        )
    directory, address, port, slots = sys.argv[1:5]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1,
        threads_per_worker=int(slots),
        processes=True,
        host=address,
        scheduler_port=int(port),
        dashboard_address=None,
        local_directory=directory,
    ):
        print("cluster is ready", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
