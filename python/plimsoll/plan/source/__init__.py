"""The text of an experiment file as plain data, with the line of every key, and the kinds of values in it."""
