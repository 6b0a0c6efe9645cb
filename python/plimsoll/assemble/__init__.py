"""From files to an analysis: passes what `collect` reads to `analyse`, which is pure.

Private: the verbs of the command line and `plimsoll.api`, which is public, use it.
"""
