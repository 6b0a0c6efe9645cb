"""The command line: one thin file per verb. Nothing imports it."""
