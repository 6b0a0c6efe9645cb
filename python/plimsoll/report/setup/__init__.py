"""The picture of the set-up of an experiment."""
