"""To be written: creation."""

from __future__ import annotations

__all__: list[str] = []
