"""What the families of ops share: type rules, promotion, arguments, sizes, gradient helpers."""
