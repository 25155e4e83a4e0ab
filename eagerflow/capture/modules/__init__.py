"""What a traced function reads of trees of modules."""
