"""What operators change: the events of it, and who changed what."""
