"""Several experiment files, run one after the other against one existing service, and the page of their results."""
