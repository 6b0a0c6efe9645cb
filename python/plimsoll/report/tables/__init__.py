"""Tables of the report: each takes results and returns text cells. `table.py` is what they have in common."""
