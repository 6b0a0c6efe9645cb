"""One run: services, hooks, counters, the engine, and the files of the run."""
