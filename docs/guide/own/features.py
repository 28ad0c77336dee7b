"""Features of one's own: log powers in bands of equal width, as many as features.options.bands says."""

import numpy as np

import speechctc
from speechctc.features.extractor import FeatureExtractor


class Spectrum(FeatureExtractor):
    """The power spectrum of each frame, summed in bands."""

    version = "1"  # features and models of another version are refused

    def __init__(self, config):
        super().__init__(config)
        self.bands = self.dims(config)  # leave it at 0 if neighbouring values are not neighbours in frequency

    @classmethod
    def dims(cls, config):
        """Return the number of values of a frame."""
        return int(config.options.get("bands", 32))

    def static(self, samples):
        """Return the log powers, (n_frames, bands), of samples in [-1, 1]."""
        if not self.frames(len(samples)):
            return np.zeros((0, self.bands), np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(samples, self.window)[:: self.shift] * np.hanning(
            self.window
        )
        powers = np.array_split(np.abs(np.fft.rfft(32768 * windows)) ** 2, self.bands, axis=1)
        return np.log(np.maximum([band.sum(1) for band in powers], 1)).T.astype(np.float32)


speechctc.register_features("spectrum", Spectrum)
