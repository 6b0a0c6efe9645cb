"""Experiments that choose their next run: capacity search and repeat until tight."""
