"""The counters of servers that start jobs."""
