"""What a person may ask of a running service: their data, and to be forgotten."""
