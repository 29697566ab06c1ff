"""What `nextquery doctor` checks."""
