"""The limits on what callers send: one set for the library, the HTTP routes and the tables."""

LONGEST_ID = 256
"""Characters in a session, user, request or decision id."""
LONGEST_QUERY = 2000
"""Characters in a query."""
LONGEST_KEY_NAME = 200
"""Characters in the name of an API key."""
MOST_TRAIL = 20
"""Earlier queries on a map."""
LONGEST_TRAIL = 4000
"""Characters in all earlier queries on a map together."""
MOST_RECOMMENDATIONS = 100
"""Recommendations in one answer; the setting `m_max` may lower it."""
