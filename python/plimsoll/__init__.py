"""Plimsoll finds the load line of a distributed data service."""

__version__ = "0.1.0"
