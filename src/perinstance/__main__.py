"""``python -m perinstance`` is the command ``perinstance``."""

from perinstance.cli import main

if __name__ == "__main__":
    main()
