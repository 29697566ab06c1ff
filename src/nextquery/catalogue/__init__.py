"""The catalogue: which arms exist now, and which of them may be shown."""
