"""The OpenAPI document: scopes of routes, limits set by settings, errors with their media type."""

from typing import Any

from fastapi import FastAPI

from nextquery.service.http.bodies import ForecastBody, RecommendBody
from nextquery.service.http.scopes import NEEDED, PUBLIC


def openapi_document(app: FastAPI, *, m_max: int) -> dict[str, Any]:
    """Return the OpenAPI document of an application that answers with at most `m_max` queries."""
    schema = app.openapi()
    for body in (RecommendBody, ForecastBody):
        m = schema["components"]["schemas"][body.__name__]["properties"]["m"]
        m |= {"maximum": m_max, "default": min(m["default"], m_max)}
    bearer = {"type": "http", "scheme": "bearer", "description": "nextquery keys create"}
    schema["components"]["securitySchemes"] = {"key": bearer}
    for path, methods in schema["paths"].items():
        scope = NEEDED[path]
        for operation in methods.values():
            operation["x-scope"] = scope
            operation["security"] = [] if scope == PUBLIC else [{"key": []}]
            for response in operation["responses"].values():
                content = response.get("content", {})
                shown = content.get("application/json", {}).get("schema", {})
                if shown.get("$ref", "").endswith("/Problem"):
                    content["application/problem+json"] = content.pop("application/json")
    return schema
