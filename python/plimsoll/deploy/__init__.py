"""Prepares what a run requires: the engine, this host, services, data. It computes no statistics."""
