"""Queries that the lab makes for the drivers `sql` and `frontier`, from tables, COOL folders and logs."""
