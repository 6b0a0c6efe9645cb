"""How many repetitions an interval needs."""
