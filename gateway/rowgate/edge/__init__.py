"""Before we know who calls: host, origin, address, size."""
