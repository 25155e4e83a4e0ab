"""Task servers and clients as processes: sockets, threads, work."""
