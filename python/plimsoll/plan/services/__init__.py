"""Kinds of services: each file describes one kind, `table.py` lists them."""
