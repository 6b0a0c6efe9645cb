"""Verbs that plan, execute or watch experiments."""
