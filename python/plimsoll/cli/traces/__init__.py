"""Verbs for traces of file I/O."""
