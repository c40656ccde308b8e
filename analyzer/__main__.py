"""`python -m analyzer` is the command `glideslope`."""

from .cli import main

if __name__ == "__main__":
    main()
