"""Kernels of the fft ops."""

from __future__ import annotations

__all__: list[str] = []
