"""Kernels of the sort ops."""

from __future__ import annotations

__all__: list[str] = []
