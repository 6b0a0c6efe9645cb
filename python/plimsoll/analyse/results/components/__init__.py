"""Results about hosts, services and their resources."""
