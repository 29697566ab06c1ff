"""Methods that read the words of queries."""
