"""How busy hosts, services and what is watched were, and which of them is the bottleneck."""
