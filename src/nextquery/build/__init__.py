"""Build pools and encoders from raw logs."""
