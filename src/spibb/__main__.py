"""``python -m spibb``, and the program ``spibb``, are the command line."""


def main() -> None:
    """Run the command line; Ctrl-C is answered already while its packages are loaded."""
    from spibb.cli.interrupts import prompt_interrupts
    from spibb.cli.streams import open_closed_streams

    open_closed_streams()
    with prompt_interrupts():
        from spibb.cli.app import main as run

        run()


if __name__ == "__main__":
    main()
