"""Networks written as a user writes them, with public names only, that learn something real."""
