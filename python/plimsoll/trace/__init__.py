"""What an application did to its files: the profile of an I/O trace, in the terminal and as a page.

The engine reads traces and computes; this package shows. Never: recompute what the engine has computed.
"""
