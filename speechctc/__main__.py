"""``python -m speechctc``: the same as the ``speechctc`` command."""

from speechctc.cli.app import main

if __name__ == "__main__":
    main()
