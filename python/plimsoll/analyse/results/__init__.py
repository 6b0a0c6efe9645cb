"""Results of an analysis: dataclasses, their JSON form, the rules of verdicts, and the texts of numbers."""
