"""Exchange with other programs: exports of the log, and UBI records that come in."""
