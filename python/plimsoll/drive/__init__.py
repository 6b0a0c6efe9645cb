"""Carries a plan out: the engine's session, the state machine of an experiment, resume, events. Never charts."""
