"""What only the leader does.

- `spread`: who should lead which shard, worked out from who lives and who leads.
- `leadership`: tries what the spread gives to this frontend, and hands over what it leads beyond its share.
- `election`: wins, keeps and loses the term of a shard, and starts its duties.
- `polling`: claims the bindings of the shard and keeps a reader for each; `reader`: polls one and stores what came.
- `liveness`: what the readers know of their links, stored for every frontend.
"""
