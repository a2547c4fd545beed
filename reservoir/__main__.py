"""``python -m reservoir``, and the installed executable."""

from reservoir.app import app


def run() -> None:
    """Run the command line under the name that completion knows."""
    app(prog_name="reservoir")


if __name__ == "__main__":
    run()
