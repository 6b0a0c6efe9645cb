"""Statistics: arrays in, dataclasses out. Never files, printing, charts or network."""
