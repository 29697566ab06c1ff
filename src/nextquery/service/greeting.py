"""The lines printed at the start: the address, who may call, and how to try it."""

import json
import shlex

from nextquery.service.http.access import CREATE_A_KEY, CREATE_AN_ADMIN_KEY
from nextquery.service.http.documentation import is_built
from nextquery.service.log.database import without_password
from nextquery.service.settings import Settings

LAST = "then: "  #: how the last line begins


def greeting(
    settings: Settings, port: int, *, arms: int, token: str | None, query: str = "A QUERY"
) -> list[str]:
    """Return the lines to print.

    Parameters
    ----------
    settings : where the service listens.
    port : the port that it got.
    arms : number of arms.
    token : what opens admin paths without API keys; None if requests need keys.
    query : what to ask in the example.
    """
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if token is None else ""
    curl = f"curl {url}/v1/recommend{key} -H 'Content-Type: application/json'"
    asked = shlex.quote(json.dumps({"session_id": "s1", "query": query}, ensure_ascii=False))
    taken = '\'{"decision_id": "FROM THE ANSWER", "accepted": ARM_ID}\''
    return [
        f"serving {arms:,} arms at {url} (ctrl-c stops)",
        f"page: {url}/" if token is None else f"page: {url}/#token={token}",
        f"API:  {url}/api",
        "docs: " + (f"{url}/docs/" if is_built() else "run make docs, then start again"),
        *([f"examples: rows of {settings.explore}, on the page"] if settings.explore else []),
        *_who_may_call(settings, token),
        f"try:  {curl} -d {asked}",
        f"{LAST}{curl.replace('recommend', 'feedback')} -d {taken}",
    ]


def _who_may_call(settings: Settings, token: str | None) -> list[str]:
    store = without_password(settings.store)
    key, admin_key = (text.replace("URL", store) for text in (CREATE_A_KEY, CREATE_AN_ADMIN_KEY))
    if token is None:
        return [f"API keys are on. For the page's Operate view: {admin_key}"]
    off = "API keys are OFF: everyone on this machine may ask for recommendations. "
    on = "Creating the first key turns them on." if settings.keys == "auto" else ""
    return [
        (off + on).rstrip(),
        "Administration needs the token in the link above; it is new at every start.",
        f"Before you put a proxy in front, create keys: {key}",
        f"and, since keys end the token: {admin_key}",
    ]
