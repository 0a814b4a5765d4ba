"""Answering over HTTP: collect, publish, recommend."""

from tacit.provider.service.app import create_app
from tacit.provider.service.limits import RateLimits
from tacit.provider.service.state import Settings
from tacit.provider.service.tokens import AdminToken

__all__ = ["AdminToken", "RateLimits", "Settings", "create_app"]
