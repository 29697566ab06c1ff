"""The event log: its tables, what may be written to it, and how it is read and exported."""
