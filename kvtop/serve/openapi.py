"""The OpenAPI description of the interface, made of the very types that bodies are read and written by."""

from __future__ import annotations

from typing import Any

import msgspec

from kvtop import __version__
from kvtop.serve import told
from kvtop.serve.asked import ChatAsked, CompletionAsked, TokenizeAsked

_TYPES = (
    *(CompletionAsked, ChatAsked, TokenizeAsked, told.Completion, told.ChatCompletion, told.ChatChunk),
    *(told.Models, told.Tokens, told.Fault),
)
_FAULTS = {
    400: "a field is wrong; the message names it, and what is allowed",
    401: "the API key is wrong or missing",
    404: "the model is not served here",
    413: "the body is too large",
    429: "too many calls are open, or too many sequences wait",
    503: "there is no engine that could answer: it loads, has failed, or the server is ending",
}


def description(model: str | None) -> dict[str, Any]:
    """OpenAPI 3.1. ``model`` is the one that is served; None: the engine is not there to say."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    if model is not None:
        for asked in (CompletionAsked, ChatAsked):
            components[asked.__name__]["properties"]["model"] = {"type": "string", "enum": [model]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kvtop serve",
            "version": __version__,
            "description": "A language model on a paged KV cache that can be watched, behind the OpenAI interface.",
        },
        "paths": {
            "/v1/completions": {
                "post": _writing("completions", "Continue a text", CompletionAsked, told.Completion, told.Completion)
            },
            "/v1/chat/completions": {
                "post": _writing("chat", "Answer a conversation", ChatAsked, told.ChatCompletion, told.ChatChunk)
            },
            "/tokenize": {
                "post": {
                    "operationId": "tokenize",
                    "summary": "How many tokens a prompt or a conversation has",
                    "security": [{}, {"key": []}],
                    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(TokenizeAsked)}}},
                    "responses": {"200": _json("the count", told.Tokens), **_faults(400, 401, 404, 413, 503)},
                }
            },
            "/v1/models": {
                "get": {
                    "operationId": "models",
                    "summary": "The model that is served",
                    "security": [{}, {"key": []}],
                    "responses": {"200": _json("the one model", told.Models), **_faults(401, 503)},
                }
            },
            "/health": {
                "get": {
                    "operationId": "health",
                    "summary": "Whether calls are answered",
                    "responses": {"200": _object("they are"), **_faults(503)},
                }
            },
            "/metrics": {
                "get": {
                    "operationId": "metrics",
                    "summary": "Metrics of the engine under vLLM's names, for Prometheus and kvtop attach",
                    "responses": {
                        "200": {"description": "a page", "content": {"text/plain": {"schema": {"type": "string"}}}}
                    },
                }
            },
            "/kv_event_sources": {
                "get": {
                    "operationId": "kv_event_sources",
                    "summary": "Where KV events are published, by rank",
                    "responses": {"200": _object("a table of ranks")},
                }
            },
            "/kvtop_sources": {
                "get": {
                    "operationId": "kvtop_sources",
                    "summary": "Where true block tables are published, by rank",
                    "responses": {"200": _object("a table of ranks")},
                }
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _writing(name: str, summary: str, asked: type, whole: type, piece: type) -> dict[str, Any]:
    """A call that makes the engine write."""
    return {
        "operationId": name,
        "summary": summary,
        "security": [{}, {"key": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(asked)}}},
        "responses": {
            "200": {
                "description": f"the whole answer; with stream: events, their data {piece.__name__} and a last [DONE]",
                "content": {
                    "application/json": {"schema": _ref(whole)},
                    "text/event-stream": {},
                },
            },
            **_faults(400, 401, 404, 413, 429, 503),
        },
    }


def _faults(*statuses: int) -> dict[str, Any]:
    return {str(status): _json(_FAULTS[status], told.Fault) for status in statuses}


def _json(text: str, kind: type) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _ref(kind)}}}


def _object(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": {"type": "object"}}}}


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
