"""How a trace is made: the function runs once, with what it reads and changes outside."""
