"""What an erasure needs: who typed the text of each arm, since when, and how far erasures are.

Arms from before have no `min_users`: who typed them was not kept. Sightings and identities from
before get the time of this upgrade.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns and the table of leases."""
    op.add_column("arm_texts", sa.Column("min_users", sa.Integer))
    for table in ("sightings", "identities"):
        op.add_column(table, sa.Column("time", sa.Float(53), nullable=False, server_default="0"))
        op.execute(f"UPDATE {table} SET time = (SELECT clock FROM counter)")
    for name in ("erased", "cleaned"):
        column = sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        op.add_column("counter", column)
    op.add_column("counter", sa.Column("erasing", sa.Float(53)))
    op.create_table(
        "leases",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
