"""Postgres: the only place where truth lives, and the only package that writes SQL.

- `database`: the pool, transactions, and what the server must be able to do.
- `schema`: migrations at start, under an advisory lock.
- `leases`: locks and terms (leader, owner); `presence`: which frontends are alive; `leadership`: who leads.
- one module an aggregate: `people`, `agents`, `chats`, `bindings`, `senders`, `addons`, `notices`, `keyring`.
- the path of a message: `intake`, `admission`, `places`, `turns`, `deliveries`, `doubtful`, `operations`.

Functions take the connection first, so that several of them share one transaction; the service function that
opens it is the unit of work, and makes no network call inside.
"""

from shared.store.database import Connection, Database, StoreUnavailable

__all__ = ["Connection", "Database", "StoreUnavailable"]
