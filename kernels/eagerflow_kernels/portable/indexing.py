"""Kernels of the indexing ops."""

from __future__ import annotations

__all__: list[str] = []
