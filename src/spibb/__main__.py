"""``python -m spibb`` is the command line."""

from spibb.cli.app import main

if __name__ == "__main__":
    main()
