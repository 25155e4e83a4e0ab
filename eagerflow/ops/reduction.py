"""To be written: reduction."""

from __future__ import annotations

__all__: list[str] = []
