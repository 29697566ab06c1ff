"""How much each user, session and owner has taught today."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "teaching",
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("who", sa.String(320), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
