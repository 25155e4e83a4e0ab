"""To be written: indexing."""

from __future__ import annotations

__all__: list[str] = []
