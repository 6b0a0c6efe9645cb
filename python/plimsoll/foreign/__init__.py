"""Results of other load testers. Pure: lines or JSON in, one run out. `table.py` lists the formats."""
