"""The only place where sentences about results are made: each module takes structured results and returns text.

Nothing here reads a sentence again. What a sentence depends on is a field of `results`; a text of the user (a level, a
name) is put into a sentence as it is, and never searched for words.
"""
