"""Controllers that decide which run comes next from the results so far. Pure: no files, no processes, no clock."""
