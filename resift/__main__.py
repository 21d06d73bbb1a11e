"""``python -m resift`` is ``resift``."""

from resift.cli.main import main

if __name__ == "__main__":
    main(prog_name="resift")
