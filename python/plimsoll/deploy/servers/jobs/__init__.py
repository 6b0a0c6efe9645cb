"""Servers that start jobs: GRAM."""
