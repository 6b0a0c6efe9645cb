"""The counters of servers that have none of their own, from the lines of their logs."""
