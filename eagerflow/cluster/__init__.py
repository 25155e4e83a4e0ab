"""Task servers: processes that own devices and resources, and run partitions of graphs."""
