"""Run the command line: `python -m compactor`."""

from compactor.cli.main import main

if __name__ == "__main__":
    main()
