"""Whether a run is valid: the load generator and the target are told apart."""
