"""To be written: dtypes."""

from __future__ import annotations

__all__: list[str] = []
