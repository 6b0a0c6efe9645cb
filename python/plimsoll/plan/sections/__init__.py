"""Sections of the experiment file that are read after its design."""
