"""Who asks: devices by tokens they drew themselves, stored hashed; the operator by the admin token."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from tacit.errors import InvalidInputError
from tacit.provider.service.problems import Problem
from tacit.provider.service.state import Service

_DEVICE_TOKEN = re.compile(r"[0-9a-f]{32}")
_ADMIN_TOKEN = re.compile(r"[!-~]{16,200}")


@dataclass(frozen=True)
class AdminToken:
    """What the operator proves to be the operator with; only its hash is kept."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, token: str) -> AdminToken:
        """Take a token, or refuse one that is too short or could be a device's."""
        if not _ADMIN_TOKEN.fullmatch(token) or _DEVICE_TOKEN.fullmatch(token):
            raise InvalidInputError(
                f"an admin token of {len(token)} characters is not 16 to 200 printable ones without spaces "
                "(and not 32 hex digits, which devices use); choose another"
            )
        return cls(hashlib.sha256(token.encode()).digest())

    def matches(self, token: str) -> bool:
        """Compare in a time that does not tell where they differ."""
        return secrets.compare_digest(self.digest, hashlib.sha256(token.encode("utf-8", "replace")).digest())


def hash_of(token: str) -> bytes:
    """Return what is stored of a device's token: 128 random bits need no salt."""
    return hashlib.sha256(token.encode()).digest()


# Dependencies are coroutines, because FastAPI sends plain functions through its pool of threads.


async def _service(request: Request) -> Service:
    return _service_of(request)


def _service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def bearer_of(request: Request) -> str:
    """Return the token of a request; nothing else proves who asks."""
    stated = request.headers.getlist("authorization")
    kind, _, token = stated[0].partition(" ") if len(stated) == 1 else ("", "", "")
    if kind.lower() != "bearer" or not token:
        raise Problem("unauthorised", "there is not one header Authorization with 'Bearer TOKEN'; send one token")
    return token


async def device_of(request: Request) -> bytes:
    """Return the hash of a device's token, within its share of requests."""
    token = bearer_of(request)
    if not _DEVICE_TOKEN.fullmatch(token):
        raise Problem("unauthorised", "a device token is 32 lower-case hex digits; draw 128 random bits")
    hashed = hash_of(token)
    _service_of(request).limits.check(hashed.hex())
    return hashed


async def admin_of(request: Request) -> None:
    """Refuse everybody but the operator; guesses are slowed down together."""
    token, service = bearer_of(request), _service_of(request)
    if not service.admin.matches(token):
        service.limits.check_guess()
        code = "forbidden" if _DEVICE_TOKEN.fullmatch(token) else "unauthorised"
        raise Problem(code, "this is not the admin token; it was given or shown when the service started")


# What OpenAPI says of tokens; the checks are above.
_device = HTTPBearer(
    auto_error=False, scheme_name="device", description="128 random bits as 32 hex digits, drawn on the device."
)
_admin = HTTPBearer(auto_error=False, scheme_name="admin", description="The operator's token.")

ServiceOf = Annotated[Service, Depends(_service)]
DeviceOf = Annotated[bytes, Depends(device_of)]
ByDevice = Depends(_device)
ByAdmin = Depends(_admin)
Admin = Depends(admin_of)
