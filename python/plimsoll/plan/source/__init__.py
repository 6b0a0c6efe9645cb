"""The text of an experiment file as plain data with the line of every key, and the types of its values."""
