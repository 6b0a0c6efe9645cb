"""The kinds of services that start jobs: GRAM."""
