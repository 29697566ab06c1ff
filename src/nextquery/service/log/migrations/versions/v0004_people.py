"""Keys whose user ids are trusted, and for which person a decision was made.

Keys from before are not trusted, and decisions from before were made for nobody in particular.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns."""
    trusted = sa.Column("trusted_users", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("keys", trusted)
    op.add_column("decisions", sa.Column("person", sa.String(64)))
