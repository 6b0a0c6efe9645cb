"""Reads and checks a results directory, and provides its columns as arrays."""
