"""The lab's half of the drivers: each file contains the section, settings and requests of one; `table.py` lists
them."""
