"""What the families of ops share: type rules, promotion, arguments, sizes, helpers of gradient rules."""
