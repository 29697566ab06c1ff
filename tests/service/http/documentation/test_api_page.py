"""The API page: everything of the schema is on it, and it loads nothing from elsewhere."""

import re
from html import unescape
from typing import Any

from starlette.testclient import TestClient

from docsite.build import what_it_loads
from nextquery.service.http.documentation import SCOPE, Endpoint, endpoints
from nextquery.service.http.responses import NEEDED

DOCUMENT: dict[str, Any] = {
    "paths": {
        "/v1/ask": {
            "post": {
                "description": "Ask\n<once>.",
                "x-scope": "write",
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}
                    }
                },
                "parameters": [
                    {"name": "by", "schema": {"enum": ["hour", "day"]}, "description": "How."}
                ],
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {
                                "example": {"ok": True},
                                "schema": {
                                    "properties": {
                                        "all": {"type": "array", "items": {"$ref": "#/c/s/Ask"}}
                                    }
                                },
                            }
                        }
                    },
                    "422": {"description": "A field is invalid."},
                },
            }
        }
    },
    "components": {
        "schemas": {
            "Ask": {
                "required": ["query"],
                "properties": {
                    "query": {"type": "string", "description": "What | <b>."},
                    "m": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
                },
                "examples": [{"query": "é"}],
            }
        }
    },
}


def test_an_endpoint_is_read_from_the_schema() -> None:
    [one] = endpoints(DOCUMENT)
    assert (one.method, one.path, one.scope) == ("POST", "/v1/ask", "write")
    assert one.about == "Ask <once>."
    assert one.fields == (
        ("query", "string", True, "What | <b>."),
        ("m", "integer, 1 to 9", False, "Default: 5."),
        ("by", '"hour" or "day"', False, "How."),
    )
    assert [field.name for field in one.answers] == ["all", "all[].query", "all[].m"]
    assert '"query": "é"' in one.body
    assert '"ok": true' in one.answer
    assert one.errors == (("422", "A field is invalid."),)


def page(client: TestClient) -> str:
    answer = client.get("/api")
    assert answer.status_code == 200
    assert "script" not in answer.headers["Content-Security-Policy"]
    return answer.text


def test_everything_of_the_schema_is_on_the_page(client: TestClient) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", page(client)))
    schema = client.get("/openapi.json").json()
    seen = 0
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            section = text.split(f"\n{method.upper()} {path}\n")[1].split("\nExample (request")[0]
            assert SCOPE[NEEDED[path]] in section
            for parameter in operation.get("parameters", []):
                assert parameter["name"] in section
            for response in operation["responses"].values():
                assert response["description"] in text or "200" in operation["responses"]
    for model in schema["components"]["schemas"].values():
        for name, field in model.get("properties", {}).items():
            seen += 1
            assert name in text, name
            assert field.get("description", "") in text, field
    assert seen > 60


def test_the_page_loads_only_our_files_and_has_no_script(client: TestClient) -> None:
    html = page(client)
    assert "<script" not in html
    assert what_it_loads(html) == ["/page/icon.svg", "/page/style.css", "/page/reference.css"]
    for path in what_it_loads(html):
        answer = client.get(path)
        assert answer.status_code == 200
        assert what_it_loads(answer.text) == []


def test_links_of_the_page_lead_to_its_sections(client: TestClient) -> None:
    html = page(client)
    ids = re.findall(r'id="([\w-]+)"', html)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([\w-]+)"', html)) == set(ids)


def test_text_cannot_become_html(client: TestClient) -> None:
    from nextquery.service.http.documentation import api_page

    one = Endpoint(
        "GET", "/<i>", "read", "<b>", "<u>", (), "<s>", "text/plain", (), (("400", "<p>"),)
    )
    text = api_page([one], [])
    for tag in ("<i>", "<b>", "<u>", "<s>"):
        assert tag not in text
    assert "<dd>&lt;p&gt;</dd>" in text
