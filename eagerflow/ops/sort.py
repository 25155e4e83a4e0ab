"""To be written: sort."""

from __future__ import annotations

__all__: list[str] = []
