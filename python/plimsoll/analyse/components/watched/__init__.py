"""Readings of watched systems: hosts, exporters, control groups and the links of a testbed."""
