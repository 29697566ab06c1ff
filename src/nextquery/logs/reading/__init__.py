"""Reading: from files of any format to one table of rows."""
