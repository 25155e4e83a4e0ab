"""Programs with device scopes, a file for each part of the language; see `table`."""
