"""Writes a ROOT file of 25 branches, some 20 MB: python write.py events.root"""

import sys

import numpy as np
import uproot

rng = np.random.default_rng(1)
events, branches = 20_000, 25
with uproot.recreate(sys.argv[1], compression=uproot.ZLIB(1)) as file:
    tree = file.mktree("Events", {f"b{branch}": "float32" for branch in range(branches)})
    for _ in range(10):
        tree.extend({f"b{branch}": rng.normal(size=events).astype("f4") for branch in range(branches)})
