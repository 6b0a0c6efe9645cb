"""Tables of comparisons and histories."""
