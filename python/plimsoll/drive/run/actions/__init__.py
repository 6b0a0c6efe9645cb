"""The actions of a run: a thread for each, next to the run."""
