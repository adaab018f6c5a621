"""The command line: one file a command."""


def main() -> None:
    from lily.cli.app import run

    run()
