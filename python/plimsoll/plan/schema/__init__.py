"""The experiment file as written: one model, checked for form only, and paths into it."""
