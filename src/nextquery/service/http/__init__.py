"""HTTP: routes, access, limits on bodies, the request log and errors."""
