"""Kernels of the reduction ops."""

from __future__ import annotations

__all__: list[str] = []
