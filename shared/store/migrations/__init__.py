"""Alembic migrations: expand before contract, with lock and statement timeouts, under one advisory lock.

`HEAD` is the revision that this code needs; a test holds it against the scripts, so that a process whose
database is current never has to import Alembic.
"""

HEAD = "0001"
