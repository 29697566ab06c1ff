"""Read files of any supported format into one table of rows."""
