"""``python -m resift`` is ``resift``."""

from resift.cli import main

if __name__ == "__main__":
    main(prog_name="resift")
