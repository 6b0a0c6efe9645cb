"""One run: from its transactions, counters and samples to its result."""
