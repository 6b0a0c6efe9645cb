"""Charts of hosts, testers and components."""
