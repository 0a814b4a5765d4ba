"""The first tables: policies, items, devices, reports, tallies, runs and secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "policies",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "devices",
        sa.Column("key", _key, primary_key=True),
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False, unique=True),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "reports",
        sa.Column("device", _key, primary_key=True, autoincrement=False),
        sa.Column("item", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("policy", sa.SmallInteger, nullable=False),
        sa.Column("symbol", sa.SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tallies",
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("code", sa.String(40), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.LargeBinary(32), nullable=False),
    )
