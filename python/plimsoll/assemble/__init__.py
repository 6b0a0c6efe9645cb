"""From files to an analysis: passes the data that `collect` reads to `analyse`, which is pure.

Private. Only the command line and `plimsoll.api`, which is public, use it.
"""
