"""Where what is sent meets those that receive it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, final


@final
class Rendezvous:
    """Of one step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Any, Any] = {}
        self._receivers: dict[Any, Callable[[Any], object]] = {}

    def send(self, key: Any, data: Any) -> None:
        """Bring a value."""
        with self._lock:
            done = self._receivers.pop(key, None)
            if done is None:
                assert key not in self._values, key
                self._values[key] = data
                return
        done(data)

    def receive(self, key: Any, done: Callable[[Any], object]) -> Callable[[], object] | None:
        """Get one, now or later."""
        with self._lock:
            if key not in self._values:
                assert key not in self._receivers, key
                self._receivers[key] = done
                return lambda: self._receivers.pop(key, None)
            data = self._values.pop(key)
        done(data)
        return None

    def end(self) -> None:
        """The step is over."""
        with self._lock:
            self._values.clear()
            self._receivers.clear()
