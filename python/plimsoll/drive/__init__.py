"""Carries out a plan: the session with the engine, the state machine of an experiment, resume, events. It
creates no charts."""
