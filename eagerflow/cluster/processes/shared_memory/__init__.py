"""Task servers and clients as processes: sockets, threads, the handling of requests."""
