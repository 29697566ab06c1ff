"""`python -m nextquery` is the command `nextquery`."""

from nextquery.cli import main

main()
