"""The kinds of services that are databases, and their replicas."""
