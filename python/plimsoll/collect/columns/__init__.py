"""Columns of transactions and samples as arrays."""
