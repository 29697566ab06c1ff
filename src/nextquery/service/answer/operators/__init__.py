"""What operators do with the engine."""
