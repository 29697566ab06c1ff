"""Who gets which policy, and what the operators see and do about it."""
