"""What has to be there before a run: the engine, this host, services, data. Never statistics."""
