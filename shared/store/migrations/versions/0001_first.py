"""The first schema: every table of the architecture's "Where truth lives"."""

import re
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    script = Path(__file__).with_name("0001_first.sql").read_text("utf-8")
    for statement in re.sub(r"^--.*$", "", script, flags=re.MULTILINE).split(";\n\n"):
        if statement.strip():
            op.execute(statement)
