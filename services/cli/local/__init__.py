"""Engines that `trunkline up` starts by itself on one machine: `postgres` and `nats`."""
