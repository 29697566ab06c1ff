"""What the service says of itself: the API page and the documentation site."""
