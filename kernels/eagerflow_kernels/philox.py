"""The constants of Philox4x64-10 (Salmon, Moraes, Dror, Shaw, SC '11); nothing here needs NumPy."""

from __future__ import annotations

from typing import Final

MULTIPLIERS: Final = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL: Final = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS: Final = 10
