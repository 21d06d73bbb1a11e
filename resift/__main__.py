"""Entry point of ``python -m resift``, which runs the ``resift`` command."""

from resift.cli.main import main

if __name__ == "__main__":
    main(prog_name="resift")
