"""speechctc: from recordings and phone labels to a phoneme recogniser."""

__version__ = "0.1.0"
