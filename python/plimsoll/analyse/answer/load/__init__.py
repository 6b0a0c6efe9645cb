"""Sentences on loads and designs: capacities, saturation, searches, effects."""
