"""Programs of users with types, and what mypy and pyright say of them."""
