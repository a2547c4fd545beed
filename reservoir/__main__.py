"""``python -m reservoir``."""

from reservoir.app import app

if __name__ == "__main__":
    app(prog_name="reservoir")
