"""Alembic's way in: the steps run on the connection they are given."""

from alembic import context

from tacit.provider.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
