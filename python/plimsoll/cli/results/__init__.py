"""Verbs that read results."""
