"""How a query is cleaned, and which text is private."""
