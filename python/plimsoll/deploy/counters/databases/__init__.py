"""Counters and sessions of database servers."""
