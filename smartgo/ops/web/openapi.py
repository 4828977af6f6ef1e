"""
The OpenAPI 3.1 document, from the declarations of the routes: C{/openapi.json}, and its page in HTML.

The structs that check requests are the ones whose JSON schemas stand here; the codes are those that can really come.
Clients generate types from the names of schemas, so these stay: a struct of a route whose class is renamed keeps the
published name as its C{schema_name}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from smartgo.ops.problems import TITLES, ProblemBody
from smartgo.ops.web.routes import LinesAnswer, Raw, RestRoute, StreamAnswer

PREFIX: Final = "/api/v1"
PROBLEM: Final = "application/problem+json"
LINES: Final = "application/x-ndjson"

ALWAYS: Final[Mapping[int, str]] = {
    400: "The request is malformed, or a value in it is not allowed.",
    403: "The host or origin is not allowed, the CSRF token is wrong, or the scope is missing.",
    408: "The request was not complete in time.",
    413: "The body is too long.",
    414: "The URL is too long.",
    429: "Too many requests, or too many wrong tokens; Retry-After says for how long.",
    431: "The headers are too long or too many.",
    500: "A server error; the server's log has the details under the request's id.",
    503: "Too many requests in progress, or a broker is busy.",
}
"""What any request may get."""

_WITH_SCOPE: Final[Mapping[int, str]] = {401: "No token or session, or a wrong one."}
_WITH_BODY: Final[Mapping[int, str]] = {415: "The body is not of type application/json."}
_REMOTE: Final[Mapping[int, str]] = {
    404: "The object does not exist.",
    409: "A broker or registry refused; the detail gives its reason.",
    502: "A broker or registry cannot be reached.",
    504: "A broker or registry did not answer in time.",
}

_IVAR = re.compile(r"@ivar (\w+): (.*?)(?=\n\s*@)", re.DOTALL)
_MARKUP = re.compile(r"[CLIB]\{((?:[^{}]|\{[^{}]*\})*)\}")
_SNAKE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_REFERENCE: Final = "#/components/schemas/{name}"


def codes_of(route: RestRoute) -> dict[int, str]:
    """Return the error codes that a route can answer, each with when."""
    found = dict(ALWAYS)
    if route.scope is not None or route.changes:
        found.update(_WITH_SCOPE)
    if route.body_type is not None:
        found.update(_WITH_BODY)
    if route.remote:
        found.update(_REMOTE)
    found.update(route.refuses)
    return dict(sorted(found.items()))


def document(routes: Iterable[RestRoute], title: str = "smartgo") -> dict[str, Any]:
    """Return the document as plain values."""
    declared = list(routes)
    types = _types(declared)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    by_type = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in declared:
        paths.setdefault(PREFIX + one.path, {})[one.method.lower()] = _operation(one, by_type, components)
    published = {kind.__name__: kind.schema_name for kind in types if hasattr(kind, "schema_name")}
    parameters = {struct.__name__ for one in declared for struct in (one.path_type, one.query_type) if struct}
    shown = {
        published.get(name, name): {**_cleaned(_explained(schema)), **_titled(published.get(name))}
        for name, schema in components.items()
        if name not in parameters
    }
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": "1",
            "description": "Brokers, topics, groups and messages. Errors are problem bodies (RFC 9457).",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}, {"account": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(one.tag for one in declared)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shown.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token of this API."},
                "account": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Key and secret of an account, where access control is on.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "smartgo_session",
                    "description": "A login; what changes anything needs X-CSRF-Token besides.",
                },
            },
        },
    }
    return dict(_published(found, published))


def _titled(name: str | None) -> dict[str, str]:
    """Return the title of a schema under a published name; nothing where its class still has that name."""
    return {} if name is None else {"title": name}


def _published(value: Any, names: Mapping[str, str]) -> Any:
    """Return a part of the document that refers to schemas by their published names."""
    if isinstance(value, list):
        return [_published(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _published(one, names) for key, one in value.items()}
    reference = found.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        found["$ref"] = _REFERENCE.format(name=names.get(name, name))
    return found


def _types(declared: list[RestRoute]) -> list[Any]:
    found: list[Any] = [ProblemBody]
    for one in declared:
        for kind in (one.path_type, one.query_type, one.body_type, one.answer_type, *one.names):
            if kind is not None and kind not in (Raw, StreamAnswer, LinesAnswer) and _key(kind) not in map(_key, found):
                found.append(kind)
    return found


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(one: RestRoute, by_type: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    summary, _, description = _plain(one.about).partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": f"{one.tag}_{one.name}",
        "tags": [one.tag],
        "summary": summary.strip().rstrip("."),
    }
    text = description.strip()
    if one.scope is not None:
        text = f"{text}\n\nNeeds the scope `{one.scope}`.".strip()
    else:
        operation["security"] = []
    if text:
        operation["description"] = text
    parameters = [
        *_parameters(one.path_type, "path", components),
        *_parameters(one.query_type, "query", components),
    ]
    if parameters:
        operation["parameters"] = parameters
    if one.body_type is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_type[_key(one.body_type)]}},
        }
    operation["responses"] = _responses(one, by_type)
    return operation


def _responses(one: RestRoute, by_type: Mapping[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done." if one.answer_type is None else "The answer."}
    if one.answer_type is StreamAnswer:
        success["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif one.answer_type is LinesAnswer:
        success["content"] = {LINES: {"schema": {"type": "string"}}}
    elif one.answer_type is Raw:
        success["content"] = {one.media: {"schema": {"type": "string"}}}
    elif one.answer_type is not None:
        success["content"] = {one.media: {"schema": by_type[_key(one.answer_type)]}}
    responses = {str(one.status): success}
    if one.method == "GET" and one.answer_type not in (None, StreamAnswer, LinesAnswer):
        responses["304"] = {"description": "Unchanged: the answer matches If-None-Match."}
    problem = {PROBLEM: {"schema": by_type[_key(ProblemBody)]}}
    for status, when in codes_of(one).items():
        responses[str(status)] = {"description": f"{TITLES[status]}. {when}", "content": problem}
    return responses


def _parameters(
    struct: type[msgspec.Struct] | None, place: str, components: Mapping[str, Any]
) -> Iterable[dict[str, Any]]:
    if struct is None:
        return
    schema = components[struct.__name__]
    required = set(schema.get("required", ()))
    for name, field in schema["properties"].items():
        described = dict(field)
        parameter: dict[str, Any] = {"name": name, "in": place, "required": place == "path" or name in required}
        if "description" in described:
            parameter["description"] = described.pop("description")
        if described.get("default", ...) is None:
            del described["default"]
        parameter["schema"] = _without_null(described)
        yield parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without null: a parameter is given or left out."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if not kinds:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def _explained(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a struct with what its docstring says of members (C{@ivar}) beside these."""
    if "properties" not in schema:
        return schema
    fields = {
        _camel(name): " ".join(text.split()) for name, text in _IVAR.findall(schema.get("description", "") + "\n@")
    }
    properties = {
        name: {"description": fields[name], **field} if name in fields else field
        for name, field in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _cleaned(schema: Any) -> Any:
    """The schema with descriptions in plain words."""
    if isinstance(schema, dict):
        return {
            name: _plain(value) if name == "description" and isinstance(value, str) else _cleaned(value)
            for name, value in schema.items()
        }
    return [_cleaned(one) for one in schema] if isinstance(schema, list) else schema


def _plain(text: str) -> str:
    """A docstring without its markup, fields and indentation."""
    lines = [line.strip() for line in text.strip().splitlines()]
    kept: list[str] = []
    for line in lines:
        if line.startswith("@"):
            break
        kept.append(line)
    return _MARKUP.sub(_quoted, "\n".join(kept)).strip()


def _quoted(match: re.Match[str]) -> str:
    word = match[1]
    return f"`{_camel(word) if _SNAKE.fullmatch(word) else word}`"
