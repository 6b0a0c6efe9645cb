"""Hosts: hosts files, testbeds, and the assignment of testers to hosts."""
