"""What an analysis results in: dataclasses, their JSON form, the rules of verdicts, and how numbers are written."""
