"""All sentences about results: each module takes structured results and returns text.

No code parses a sentence. The conditions of a sentence are fields of `results`. A text of the user (a level, a name) is
inserted into a sentence unchanged.
"""
