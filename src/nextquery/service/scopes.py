"""Which scope each path needs: the one table that the gate, the documents and the tests read.

A path that does not stand here needs the highest scope, so a new route is closed until somebody
decides who may use it.
"""

PUBLIC, READ, WRITE, ADMIN = "public", "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)  #: each includes the ones before it

NEEDED = {
    "/v1/recommend": WRITE,  # it records a decision
    "/v1/feedback": WRITE,
    "/v1/forecast": READ,
    "/v1/stats": READ,
    "/v1/block": ADMIN,
    "/v1/unblock": ADMIN,
    "/v1/switch": ADMIN,
    "/metrics": READ,
    "/openapi.json": READ,
    "/healthz": PUBLIC,
    "/readyz": PUBLIC,
}


def needed(path: str) -> str:
    """The scope that a path needs.

    >>> needed("/v1/feedback"), needed("/v1/stats"), needed("/nobody/listed/this")
    ('write', 'read', 'admin')
    """
    return NEEDED.get(path, ADMIN)


def allows(held: str, scope: str) -> bool:
    """Whether a key of scope `held` may do what needs `scope`.

    >>> allows("write", "read"), allows("read", "write"), allows("read", "public")
    (True, False, True)
    """
    return scope == PUBLIC or SCOPES.index(held) >= SCOPES.index(scope)
