"""The log in the formats of other programs."""
