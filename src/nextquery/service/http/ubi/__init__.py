"""UBI 1.3 records that come in."""
