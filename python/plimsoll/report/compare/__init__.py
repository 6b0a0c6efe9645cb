"""Comparisons and histories: lines for the terminal, pages, JUnit XML."""
