"""Utilization of hosts, services and watched processes, and the bottleneck among them."""
