"""Verbs that prepare hosts, services and files."""
