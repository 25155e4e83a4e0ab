"""``python -m eagerflow``: the same as the command ``eagerflow``."""

from eagerflow.cli import main

if __name__ == "__main__":
    main()
