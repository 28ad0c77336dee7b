"""An augmentation of one's own: a steady hum in one band of some utterances."""

import torch

import speechctc


def hum(static, frames, features, share=0.5, level=10.0):
    """Add `level`, a natural log power, to one band of a `share` of a batch, (n_batch, max_frames, static_dims)."""
    count, _, dims = static.shape
    chosen = torch.rand(count, device=static.device) < share
    band = torch.randint(features.mels, (count,), device=static.device)
    where = torch.nn.functional.one_hot(band, dims).bool() & chosen[:, None]
    return torch.where(where[:, None], torch.logaddexp(static, torch.full_like(static, level)), static)


speechctc.register_augmentation("hum", hum)
