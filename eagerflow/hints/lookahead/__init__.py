"""Code in the source of an error that would be refused as well, found before it runs."""
