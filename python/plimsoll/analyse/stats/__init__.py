"""Statistics: functions from arrays to numbers and intervals, independent of runs and files."""
