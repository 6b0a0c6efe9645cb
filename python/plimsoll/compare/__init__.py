"""Comparisons of two sets of runs: ratios, intervals and verdicts from the values of runs."""
