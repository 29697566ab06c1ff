"""Every setting of the service: what it means, its range, and where its value came from."""
