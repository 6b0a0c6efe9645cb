"""Computes the result of one run from its transactions, counters and samples."""
