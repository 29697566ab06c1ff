"""The OpenAPI document: the scope of every route, and errors with their media type."""

from typing import Any

from fastapi import FastAPI

from nextquery.service.http.scopes import NEEDED, PUBLIC


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    schema = app.openapi()
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
