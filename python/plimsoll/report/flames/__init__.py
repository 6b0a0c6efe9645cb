"""Flame graphs of services."""
