"""The tables. No column can hold a true rating, an address or an exact time."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

# SQLite counts up by itself only in columns of the type INTEGER.
_Key = BigInteger().with_variant(Integer, "sqlite")

policies = Table(
    "policies",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("document", Text, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("title", Text, nullable=False),
    sqlite_autoincrement=True,
)

# A key is never given twice, or a new device would be taken for a deleted one that a model still knows.
devices = Table(
    "devices",
    metadata,
    Column("key", _Key, primary_key=True),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),
    sqlite_autoincrement=True,
)

# Without foreign keys: items and policies are never deleted, and whether devices are still there is asked once for all
# reports of a group. PostgreSQL would ask for every row, and take longer for that than for the row.
reports = Table(
    "reports",
    metadata,
    Column("device", _Key, primary_key=True, autoincrement=False),
    Column("item", Integer, primary_key=True, autoincrement=False),
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("policy", SmallInteger, nullable=False),
    Column("symbol", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

# What happened, by the hour since 1970 and by code: "accepted", "duplicate", or why it was rejected.
tallies = Table(
    "tallies",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("code", String(40), primary_key=True),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

runs = Table(
    "runs",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("state", String(20), nullable=False),
    Column("document", Text, nullable=False),
    sqlite_autoincrement=True,
)

# Drawn once and kept: for example the key by which a device's reports are chosen for training.
secrets = Table(
    "secrets",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", LargeBinary(32), nullable=False),
)
