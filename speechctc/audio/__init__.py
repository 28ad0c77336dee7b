"""Audio: recordings, resampling, and files of labelled intervals."""
