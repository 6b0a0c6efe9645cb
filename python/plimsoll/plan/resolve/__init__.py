"""From one cell of the file as written to its resolved configuration."""
