"""Results about loads and designs: searches, repetitions, sessions, regressions."""
