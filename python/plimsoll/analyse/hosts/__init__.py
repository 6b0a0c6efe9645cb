"""The hosts and sites of a run of several agents: clocks, coverage, fairness."""
