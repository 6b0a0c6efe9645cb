"""The history of one experiment: the level of each metric over successive results directories, and its changes."""
