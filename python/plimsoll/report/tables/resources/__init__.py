"""Tables of hosts, services and their resources."""
