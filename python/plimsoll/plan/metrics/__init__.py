"""The metrics: the table of all of them, its page, and rules over a metric."""
