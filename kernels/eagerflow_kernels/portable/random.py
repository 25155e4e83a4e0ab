"""Kernels of the random ops."""

from __future__ import annotations

__all__: list[str] = []
