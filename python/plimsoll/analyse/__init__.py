"""Statistics: functions from arrays to dataclasses, without access to files, terminal, charts or network."""
