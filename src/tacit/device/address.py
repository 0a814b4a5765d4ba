"""A provider's address: encrypted, or on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from tacit.errors import DeviceError

# What a provider's address has no use for, and different readers read differently.
_STRANGE = frozenset(" ?#@\\")
_SHOWN = 80


@dataclass(frozen=True)
class Address:
    """Where a provider is."""

    base_url: str
    """Always spelled the same."""
    encrypted: bool
    host: str
    port: int | None
    prefix: str
    """What comes before every path."""

    @classmethod
    def parse(cls, base_url: str, *, plain_http: bool) -> Address:
        """Take an address apart, or refuse one that is none, or that others could listen at."""
        shown = repr(base_url[:_SHOWN])
        try:
            parts = urlsplit(base_url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise _no_address(shown) from error
        plain = base_url.isascii() and base_url.isprintable() and _STRANGE.isdisjoint(base_url)
        if not plain or not host or parts.scheme not in {"http", "https"}:
            raise _no_address(shown)
        encrypted = parts.scheme == "https"
        if not encrypted and not plain_http and not _is_loopback(host):
            raise DeviceError(f"{shown} is not encrypted, and others could read the token; use https")
        prefix = parts.path.rstrip("/")
        return cls(f"{parts.scheme}://{parts.netloc.lower()}{prefix}", encrypted, host, port, prefix)


def _no_address(shown: str) -> DeviceError:
    return DeviceError(f"{shown} is not the address of a provider; give one such as https://example.org")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
