"""Outages of a target, and how it recovers."""
