"""The setting ``threads``: number of threads that the linear algebra libraries use."""

from __future__ import annotations

from typing import Any

from eagerflow import settings
from eagerflow.settings import Settings

_limiter: Any = None  # of threadpoolctl, while there is a limit


def _limit(old: Settings, new: Settings) -> None:
    global _limiter
    if new.threads == old.threads:
        return
    # rarely needed, and it inspects all libraries of the process; it has no types
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # noqa: PLC0415

    if _limiter is not None:
        _limiter.restore_original_limits()
        _limiter = None
    if new.threads is not None:
        blas = ThreadpoolController().select(user_api="blas")
        _limiter = blas.limit(limits=new.threads)


settings.on_change(_limit)
