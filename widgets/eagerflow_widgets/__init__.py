"""Notebook views of eagerflow. They are found by entry point; nothing imports this package."""
