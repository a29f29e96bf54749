"""`python -m compactor`."""

from compactor.cli import main

if __name__ == "__main__":
    main()
