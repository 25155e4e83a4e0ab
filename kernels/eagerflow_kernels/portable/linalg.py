"""Kernels of the linalg ops."""

from __future__ import annotations

__all__: list[str] = []
