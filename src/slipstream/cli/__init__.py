"""The command line: one file for each command."""


def main() -> None:
    """Run the command line."""
    from slipstream.cli.app import app

    app()
