"""From files to an analysis: what `collect` reads is handed to `analyse`, which is pure.

Private: the verbs of the command line and `plimsoll.api`, which is public, stand on it.
"""
