"""Effects of the factors: terms, estimates, diagnostics, comparisons by passes."""
