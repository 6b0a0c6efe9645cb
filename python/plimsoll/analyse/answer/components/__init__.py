"""Sentences on hosts, services and their resources."""
