"""Charts of comparisons and histories."""
