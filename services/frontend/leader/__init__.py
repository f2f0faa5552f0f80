"""What only the leader does.

- `election`: wins, keeps and loses the term of a shard, and starts its duties.
- `polling`: reads every binding of the shard and stores what came.
"""
