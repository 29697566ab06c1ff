"""The routes, grouped by who calls them."""
