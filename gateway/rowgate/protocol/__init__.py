"""MCP on the wire: bytes to a Call, and results back out, for both eras."""
