"""Pack the encoder of a pool of a built-in log for the package, and say what the packing changes.

    nextquery ingest topics --encoder tuned --out pools/topics-tuned
    python -m benchmarks.fitted_encoders pools/topics-tuned \\
        src/nextquery/datasets/topics-encoder.zip

Table rows are kept in half precision. Rows of tokens that no cleaned query of the log's script can
contain become zero. With ``--check`` nothing is written: the pool is compared with the packed
encoder that exists.
"""

import argparse
import re
import tempfile
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import numpy as np

import nextquery as nq
from nextquery import folders
from nextquery.encode import Encoder
from nextquery.encode.encoder import KIND, VERSION
from nextquery.encode.tokens import TokenTable

_POSSIBLE = re.compile(r"[a-z0-9 +#./'&-]+")  # in a cleaned English query
_K = 250


def pack(encoder: Encoder, out: Path) -> None:
    """Write the encoder's folder as a zip file, the same bytes every time."""
    table = encoder.table  # type: ignore[attr-defined]
    assert isinstance(table, TokenTable)
    possible = np.array([bool(_POSSIBLE.fullmatch(word)) for word in table.tokens.words()])
    rows = np.where(possible[:, None], table.rows, 0).astype(np.float16)
    parts = {name: rows if name.endswith(".npy") else part for name, part in table.parts().items()}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "encoder"
        folders.write(
            folder, kind=KIND, version=VERSION, parts=parts, meta={"encoder": encoder.meta()}
        )
        with ZipFile(out, "w", ZIP_LZMA) as archive:
            for file in sorted(folder.iterdir()):
                archive.writestr(ZipInfo(file.name), file.read_bytes(), ZIP_LZMA)


def compare(pool: nq.ArmPool, packed: Path) -> None:
    """Print how far the packed encoder is from the pool's own: vectors, and nearest arms."""
    with tempfile.TemporaryDirectory() as work:
        with ZipFile(packed) as archive:
            archive.extractall(work)
        other = nq.ArmPool.from_vectors(pool.texts, Encoder.load(work).encode(pool.texts))
    rows = np.random.default_rng(0).choice(len(pool), 500, replace=False)
    own, theirs = (p.nearest(p.vectors[rows], _K)[0] for p in (pool, other))
    shared = [len(np.intersect1d(a, b)) / _K for a, b in zip(own, theirs, strict=True)]
    cosine = (pool.vectors * other.vectors).sum(axis=1)
    print(f"{packed.stat().st_size / 1e6:.2f} MB; least cosine of an arm with itself "
          f"{cosine.min():.6f}; nearest {_K} shared: {np.mean(shared):.4f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("packed", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pool = nq.ArmPool.open(options.pool)
    if not options.check:
        assert pool.encoder is not None
        pack(pool.encoder, options.packed)
    compare(pool, options.packed)


if __name__ == "__main__":
    main()
