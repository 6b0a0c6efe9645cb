"""The time windows in which transactions are summed."""
