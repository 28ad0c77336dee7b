"""The one exception that reaches the user: a line saying what, where and what to do."""


class InputError(Exception):
    """Something the user gave is wrong; the command line prints the message and exits with status 2.

    Parameters
    ----------
    what : str
        What is wrong and where, with the value found: ``"data/a.wav: the file is empty"``.
    fix : str
        What to do about it, as an instruction: ``"record it again, or leave it out of the table"``.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}; {fix}")
        self.what = what
        self.fix = fix

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.what, self.fix)
