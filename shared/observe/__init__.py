"""Metrics, logs and health.

- `logs`: structlog for a whole process, third parties included, without secrets.
- `metrics`: every metric of Trunkline, named once. `loop`: how late the event loop is.
- `health`: `/healthz`, `/readyz` and `/metrics` for any service.
"""
