"""The table of all metrics, its page of the documentation, and rules on metrics."""
