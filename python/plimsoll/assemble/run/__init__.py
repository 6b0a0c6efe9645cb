"""From the files of one run to its results."""
