"""Sentences of the host for people, by code; `say` fills in the parameters."""

from shared.i18n.sentences import say

__all__ = ["say"]
