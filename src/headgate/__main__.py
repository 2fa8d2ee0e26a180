"""``python -m headgate``: the command line, for an interpreter whose scripts are not on the PATH."""

from headgate.cli.main import main

if __name__ == "__main__":
    main(prog_name="headgate")
