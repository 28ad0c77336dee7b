"""Features of one's own: log powers in bands of equal width, as many as features.options.bands says."""

import torch

import speechctc
from speechctc.features.extractor import FeatureExtractor


class Spectrum(FeatureExtractor):
    """The power spectrum of each frame, summed in bands."""

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
            return torch.zeros(0, self.bands)
        windows = samples.unfold(0, self.window, self.shift) * torch.hann_window(self.window)
        powers = torch.fft.rfft(32768 * windows).abs().square().tensor_split(self.bands, dim=1)
        return torch.stack([band.sum(1) for band in powers], dim=1).clamp(min=1).log()


speechctc.register_features("spectrum", Spectrum)
