"""Hosts: their files, testbeds, and which of them carry which testers."""
