"""What goes wrong with a call, as the OpenAI interface words it: a status, a message, the field it is about."""

from __future__ import annotations

from typing import Any

RETRY_SECONDS = 1

_TYPES = {401: "authentication_error", 429: "rate_limit_error", 503: "service_unavailable_error"}


class ApiFault(Exception):
    """A call that is not answered as it was meant. ``param``: the field that is wrong, where one is."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """What the client is sent."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        if self.status in (429, 503):
            return {"Retry-After": str(RETRY_SECONDS)}
        return {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}


def bad_field(sentence: str) -> ApiFault:
    """A 400 from a sentence that begins with the field's name: ``n: is 0, expected 1 or more``."""
    field, colon, _ = sentence.partition(":")
    return ApiFault(400, sentence, param=field if colon and " " not in field else None)
