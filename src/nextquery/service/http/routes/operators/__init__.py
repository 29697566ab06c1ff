"""What operators ask: queries under review, patterns, pins, the audit, and the rights of people."""
