"""Where values of one partition of a graph meet those who want them in another one."""
