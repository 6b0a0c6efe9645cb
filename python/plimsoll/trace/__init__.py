"""The profile of an I/O trace (the file accesses of an application), in the terminal and as a page.

The engine reads traces and computes the profile; this package shows it. No value of the profile is computed here.
"""
