"""The dataclasses of a resolved experiment."""
