"""Keeping what was heard: reports, devices, items, policies and runs in a real database."""

from tacit.provider.store.database import Database, absolute_address, has_password, open_database
from tacit.provider.store.store import Item, ReportStore
from tacit.provider.store.writing import Batch, Outcome

__all__ = ["Batch", "Database", "Item", "Outcome", "ReportStore", "absolute_address", "has_password", "open_database"]
