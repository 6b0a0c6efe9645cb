"""The cells of a design, their order, the restarts before each run, and the estimated time and disk space."""
