"""Who calls: from the Authorization header to a verified principal, or a challenge."""
