"""The raw model of an experiment file, which checks the form only, and paths of its values."""
