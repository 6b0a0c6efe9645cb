"""Whether a run is valid: was the load generator the limit, or the target?"""
