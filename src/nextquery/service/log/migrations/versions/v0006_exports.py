"""Which export files there are, so that an erasure can write them anew."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "exports",
        sa.Column("path", sa.String(4096), primary_key=True),
        sa.Column("host", sa.String(256), primary_key=True),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("pool", sa.String(4096)),
        sa.Column("time", sa.Float(53), nullable=False),
    )
