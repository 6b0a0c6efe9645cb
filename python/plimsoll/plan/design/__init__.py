"""The cells of a design, their order, and what a run changes and takes."""
