"""What happened, said once: rooms emit events, and log, metrics and audit subscribe."""
