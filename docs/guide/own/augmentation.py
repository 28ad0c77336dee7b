"""An augmentation of one's own: a steady hum in one band of some utterances, for features that begin with bands."""

import torch

import speechctc
from speechctc.features.extractor import extractor


def hum(static, frames, features, share=0.5, level=10.0):
    """Add `level`, a natural log power, to one band of a `share` of a batch, (n_batch, max_frames, static_dims)."""
    count, _, dims = static.shape
    bands = extractor(features).bands  # 0 where features are no log powers of bands, as of mfcc and encoders
    if not bands:
        raise speechctc.InputError("augment.own.hum is for log powers of bands", "leave it out")
    chosen = torch.rand(count, device=static.device) < share
    band = torch.randint(bands, (count,), device=static.device)
    where = torch.nn.functional.one_hot(band, dims).bool() & chosen[:, None]
    return torch.where(where[:, None], torch.logaddexp(static, torch.full_like(static, level)), static)


speechctc.register_augmentation("hum", hum)
