"""The counters of servers of files."""
