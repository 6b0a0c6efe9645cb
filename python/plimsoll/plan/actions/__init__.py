"""Actions during a run: the kinds of `actions:`, each with its section. `table.py` lists them."""
