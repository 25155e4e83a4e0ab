"""To be written: einsum."""

from __future__ import annotations

__all__: list[str] = []
