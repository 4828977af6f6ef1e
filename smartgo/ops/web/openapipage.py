"""The API's own page, made of its OpenAPI document."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from smartgo.ops.web.routes import Raw

_CACHE: Final = {"Cache-Control": "no-cache"}  # ask each time, by ETag


def docs_pages(document: Mapping[str, Any]) -> dict[str, Raw]:
    """Return the API's page, made of its OpenAPI document, and its style sheet. Its icon is C{/docs/icon.svg}."""
    return {
        "/docs": Raw(_page(document).encode(), "text/html; charset=utf-8", _CACHE),
        "/docs/style.css": Raw(_STYLE.encode(), "text/css; charset=utf-8", _CACHE),
    }


def _page(document: Mapping[str, Any]) -> str:
    info = document["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{_text(info['title'])} API</title>",
        '<link rel="stylesheet" href="/docs/style.css">',
        '<link rel="icon" href="/docs/icon.svg" type="image/svg+xml"></head><body>',
        f"<header><h1>{_text(info['title'])} API</h1><p>{_text(info['description'])} ",
        'For programs: <a href="/openapi.json">openapi.json</a>.</p></header><nav>',
        *(f'<a href="#{_text(tag["name"])}">{_text(tag["name"])}</a> ' for tag in document["tags"]),
        "</nav><main>",
    ]
    for tag in document["tags"]:
        parts.append(f'<h2 id="{_text(tag["name"])}">{_text(tag["name"])}</h2>')
        for path, operations in document["paths"].items():
            for method, one in operations.items():
                if tag["name"] in one["tags"]:
                    parts += _operation(path, method, one)
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts += _schema(name, schema)
    parts.append("</main></body></html>")
    return "".join(parts)


def _operation(path: str, method: str, one: Mapping[str, Any]) -> list[str]:
    parts = [
        f'<details id="{_text(one["operationId"])}"><summary><b class="{method}">{method.upper()}</b> ',
        f"<code>{_text(path)}</code> {_text(one['summary'])}</summary>",
        "".join(f"<p>{_text(text)}</p>" for text in one.get("description", "").split("\n\n") if text),
    ]
    if "parameters" in one:
        parts.append("<table><tr><th>parameter</th><th>in</th><th>what</th></tr>")
        for field in one["parameters"]:
            parts.append(
                f"<tr><td><code>{_text(field['name'])}</code>{' *' if field['required'] else ''}</td>"
                f"<td>{field['in']}</td><td>{_kind(field['schema'])} {_text(field.get('description', ''))}</td></tr>"
            )
        parts.append("</table>")
    if "requestBody" in one:
        parts.append(f"<p>Body: {_kind(one['requestBody']['content']['application/json']['schema'])}</p>")
    parts.append("<table><tr><th>answer</th><th>when</th></tr>")
    for status, answer in one["responses"].items():
        kinds = [_kind(each["schema"]) for each in answer.get("content", {}).values() if status < "300"]
        parts.append(f"<tr><td>{status}</td><td>{' '.join(kinds)} {_text(answer['description'])}</td></tr>")
    parts.append("</table></details>")
    return parts


def _schema(name: str, schema: Mapping[str, Any]) -> list[str]:
    parts = [f'<details id="schema-{_text(name)}"><summary><code>{_text(name)}</code></summary>']
    parts.append(f"<p>{_text(schema.get('description', ''))}</p>")
    if "enum" in schema:
        parts.append(f"<p>{_text(', '.join(map(str, schema['enum'])))}</p>")
    if "properties" in schema:
        required = schema.get("required", ())
        parts.append("<table><tr><th>member</th><th>what</th></tr>")
        for member, field in schema["properties"].items():
            star = " *" if member in required else ""
            parts.append(
                f"<tr><td><code>{_text(member)}</code>{star}</td>"
                f"<td>{_kind(field)} {_text(field.get('description', ''))}</td></tr>"
            )
        parts.append("</table>")
    parts.append("</details>")
    return parts


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, other schemas as links."""
    if "$ref" in schema:
        name = _text(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return f"one of {_text(', '.join(map(str, schema['enum'])))}"
    kind = schema.get("type", "anything")
    if "prefixItems" in schema:
        return f"list of {', '.join(_kind(one) for one in schema['prefixItems'])}"
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    limits = [
        f"{word} {schema[name]}"
        for name, word in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("minLength", "from length"),
            ("maxLength", "to length"),
            ("pattern", "like"),
            ("default", "default"),
        )
        if schema.get(name) not in (None, "")
    ]
    return _text(" ".join((str(kind), *limits)))


def _text(value: object) -> str:
    return html.escape(str(value))


_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
code { font-family: ui-monospace, monospace; }
nav { display: flex; flex-wrap: wrap; gap: .8rem; padding: .5rem 0; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .3rem .6rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; margin: .6rem 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; }
.delete { color: #c33; } .post, .put, .patch { color: #a60; } .get { color: #28c; }
"""
