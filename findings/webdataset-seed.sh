#!/usr/bin/env bash
# webdataset 1.0.2: WebDataset(resampled=True, seed=1) does not use the seed, with detshuffle=True neither.
#
# Guess: the same samples in each run, and others with another seed: `seed` is described as that of shuffling, and with
#   shardshuffle it is used.
# Seen: three equal pipelines give three different lists of samples.
# Matters: resampling is what is recommended for many workers and nodes; no run of it can be repeated by its seed.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python webdataset==1.0.2 numpy==2.4.6
python -W ignore - <<'PYTHON'
import importlib.metadata
import sys

import webdataset

for shard in range(8):
    with webdataset.TarWriter(f"{shard:03d}.tar") as writer:
        for row in range(5):
            writer.write({"__key__": f"{shard}_{row}", "txt": f"{shard * 5 + row}"})


def samples(**settings):
    pipeline = webdataset.WebDataset("{000..007}.tar", seed=1, **settings)
    if "resampled" in settings:
        pipeline = pipeline.with_epoch(40)
    return tuple(int(sample["txt"]) for sample in pipeline)


print("version: webdataset", importlib.metadata.version("webdataset"))
print("guess: one list each")
seen = {
    "shardshuffle": len({samples(shardshuffle=8) for _ in range(3)}),
    "resampled": len({samples(resampled=True) for _ in range(3)}),
    "resampled, detshuffle": len({samples(resampled=True, detshuffle=True) for _ in range(3)}),
}
print("seen: different lists of three:", seen)
sys.exit(seen != {"shardshuffle": 1, "resampled": 3, "resampled, detshuffle": 3})
PYTHON
