"""``python -m speechctc``: the same as the ``speechctc`` command."""

from speechctc.cli import main

if __name__ == "__main__":
    main()
