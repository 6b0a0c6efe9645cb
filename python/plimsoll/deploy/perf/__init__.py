"""Samples of the call stacks of a service during a run, taken by perf on its host."""
