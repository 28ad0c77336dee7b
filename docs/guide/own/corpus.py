"""A corpus of one's own: the phones of anna/u1.wav are in anna/u1.lab; speakers in corpus.options.test are the test."""

import speechctc
from speechctc.corpora.corpus import Rejected, Utterance
from speechctc.corpora.corpus_builder import CorpusBuilder


def read_labs(config, needed):
    """Return the corpus; `needed` is the split without which there is none."""
    builder = CorpusBuilder.for_config(config)
    for audio in sorted(config.root.rglob("*.wav")):
        speaker, name = audio.parent.name, audio.relative_to(config.root).with_suffix("").as_posix()
        split = "test" if speaker in config.options.get("test", ()) else "train"
        try:
            phones, _ = builder.labels(audio.with_suffix(".lab").read_text(encoding="utf-8").split())
        except (OSError, ValueError, speechctc.InputError) as error:
            builder.rejected[split].append(Rejected(name, str(error)))
        else:
            builder.utterances[split].append(Utterance(name, audio, tuple(phones), speaker))
    return builder.to_corpus(config.dev_share, without_dev=True)


speechctc.register_corpus("lab", read_labs)
