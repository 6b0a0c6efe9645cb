"""Capacities, saturation and the load line over the runs of a design."""
