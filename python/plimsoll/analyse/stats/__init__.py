"""Statistics: arrays in, numbers and intervals out. Knows no runs."""
