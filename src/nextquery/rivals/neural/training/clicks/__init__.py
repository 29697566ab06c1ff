"""Methods that learn from what was recommended and accepted, in an export of the service's log."""
