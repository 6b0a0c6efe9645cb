"""Queries that the lab makes for the drivers `sql` and `frontier`: of tables, COOL folders and logs."""
