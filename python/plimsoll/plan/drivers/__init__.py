"""The drivers of the lab: each file has the section, settings and requests of one; `table.py` lists them."""
