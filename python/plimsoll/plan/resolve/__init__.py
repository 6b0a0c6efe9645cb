"""From the raw model of one cell to its resolved configuration."""
