"""Results over the runs of a design: cells, thresholds, saturation, capacities, rankings, consistency."""
