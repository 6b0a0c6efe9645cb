"""Reads a results directory: checks it, and hands its columns to the analysis."""
