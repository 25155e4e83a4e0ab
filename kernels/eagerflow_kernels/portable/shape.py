"""Kernels of the shape ops."""

from __future__ import annotations

__all__: list[str] = []
