"""The client's end: the thread that owns its sockets, and those that ask it."""
