"""Run the `nextquery` command as `python -m nextquery`."""

from nextquery.cli import main

main()
