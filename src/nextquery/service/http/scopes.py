"""The scope that each path needs: one table for access control, documentation and tests.

A path that is not in the table needs the highest scope, so a new route is closed until it is added.
"""

PUBLIC, READ, WRITE, ADMIN = "public", "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)  #: each includes the ones before it

NEEDED = {
    "/v1/recommend": WRITE,  # it records a decision
    "/v1/feedback": WRITE,
    "/v1/ubi/events": WRITE,
    "/v1/forecast": READ,
    "/v1/map": READ,
    "/v1/explore": READ,
    "/v1/examples": READ,
    "/v1/stats": READ,
    "/v1/experiment": READ,
    "/v1/simulate": WRITE,  # it records nothing, but uses a core for seconds
    "/v1/block": ADMIN,
    "/v1/unblock": ADMIN,
    "/v1/patterns": ADMIN,
    "/v1/patterns/remove": ADMIN,
    "/v1/curated": ADMIN,
    "/v1/pins": ADMIN,
    "/v1/pins/remove": ADMIN,
    "/v1/audit": ADMIN,
    "/v1/switch": ADMIN,
    "/v1/model/roll-back": ADMIN,
    "/v1/model/end-fallback": ADMIN,
    "/v1/arms": ADMIN,  # it shows queries that are held for review
    "/v1/arms/approve": ADMIN,
    "/v1/arms/reject": ADMIN,
    "/v1/arms/remove": ADMIN,
    "/v1/users/{id}": ADMIN,
    "/v1/sessions/{id}": ADMIN,
    "/v1/operate": ADMIN,
    "/v1/decisions": ADMIN,
    "/v1/export": ADMIN,
    "/metrics": READ,
    "/openapi.json": READ,
    "/healthz": PUBLIC,
    "/readyz": PUBLIC,
    "/": PUBLIC,
    "/client.js": PUBLIC,
    "/page/{file}": PUBLIC,
    "/api": PUBLIC,
    "/docs": PUBLIC,
    "/docs/{file:path}": PUBLIC,
}
COST = {
    **{"/v1/ubi/events": 20, "/v1/map": 20},
    **dict.fromkeys(("/v1/explore", "/v1/simulate", "/v1/export"), 100),
}
"""How many requests of the rate limit a path counts as, if more than one."""
_FOLDERS = {
    "/page/": "/page/{file}",
    "/docs/": "/docs/{file:path}",
    "/v1/users/": "/v1/users/{id}",
    "/v1/sessions/": "/v1/sessions/{id}",
}


def row(path: str) -> str | None:
    """Return the row of the table for a path, or None.

    >>> row("/v1/stats"), row("/page/app.js"), row("/not/in/the/table")
    ('/v1/stats', '/page/{file}', None)
    """
    for folder, file in _FOLDERS.items():
        if path.startswith(folder):
            return file
    return path if path in NEEDED else None


def needed(path: str) -> str:
    """Return the scope that a path needs.

    >>> needed("/v1/feedback"), needed("/v1/stats"), needed("/not/in/the/table")
    ('write', 'read', 'admin')
    """
    return NEEDED.get(row(path) or "", ADMIN)


def cost(path: str, limit: int) -> int:
    """Return how many requests a path counts as: never more than a tenth of the rate limit.

    >>> cost("/v1/stats", 1000), cost("/v1/simulate", 1000), cost("/v1/simulate", 5)
    (1, 100, 1)
    """
    return max(1, min(COST.get(path, 1), limit // 10))


def allows(held: str, scope: str) -> bool:
    """Whether a key with scope `held` includes `scope`.

    >>> allows("write", "read"), allows("read", "write"), allows("read", "public")
    (True, False, True)
    """
    return scope == PUBLIC or SCOPES.index(held) >= SCOPES.index(scope)
