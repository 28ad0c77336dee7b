"""Where the phones and words of a transcript lie in a recording, and where the two do not fit."""
