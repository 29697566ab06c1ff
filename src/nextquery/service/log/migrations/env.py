"""Runs the migrations on the connection that the store gives, inside its transaction."""

from alembic import context

from nextquery.service.log.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
