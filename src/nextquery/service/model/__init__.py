"""The model: the state that the events of the log add up to, and what keeps it up to date."""
