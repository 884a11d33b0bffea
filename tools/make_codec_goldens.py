#!/usr/bin/env python3
"""Writes tests/data/codecs: what the `gguf` and `ml_dtypes` packages make of narrow numbers.

Development only; needs numpy, gguf and ml_dtypes. The same versions give the same bytes.

    python3 tools/make_codec_goldens.py [--out tests/data/codecs]

Files, little-endian:
  <gguf codec>.blocks   u32 blocks, u32 block bytes, u32 block elements; the blocks; their float32 values
  <format>.table        float32 value of every code
  <format>.encode       u32 cases; then each: float32 value, u16 code (ties, their neighbours, subnormals, zeros, NaN)
"""

import argparse
import pathlib
import struct

import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Where the binary16 scales of a block stand.
F16_FIELDS = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
# Zeros, subnormals, the smallest normal, one, odd mantissas, the largest, each sign.
EDGE_SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x34CD, 0xB4CD, 0x7BFF, 0xFBFF]


def random_scale(rng):
    bits = int(rng.integers(0, 0x7C00))
    return bits | (0x8000 if rng.integers(0, 2) else 0)


def gguf_blocks(kind, rng):
    elements, size = GGML_QUANT_SIZES[kind]
    count = 13 if elements == 256 else 32
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    # The extremes of every packed field.
    blocks[1] = 0x00
    blocks[2] = 0xFF
    blocks[3] = 0x80
    for field, offset in enumerate(F16_FIELDS[kind]):
        for i in range(count):
            scale = EDGE_SCALES[(i + 3 * field) % len(EDGE_SCALES)] if i < len(EDGE_SCALES) else random_scale(rng)
            blocks[i, offset:offset + 2] = np.frombuffer(struct.pack("<H", scale), np.uint8)
    values = dequantize(blocks, kind).astype("<f4")
    assert np.isfinite(values).all()
    return blocks, values, elements, size


def mxfp4_blocks(rng):
    """From ml_dtypes: the gguf package gives code 8 no sign."""
    exponents = list(range(0, 255, 12)) + [1, 126, 127, 128, 253, 254]
    blocks = rng.integers(0, 256, (len(exponents), 17), dtype=np.uint8)
    blocks[:, 0] = exponents
    codes = np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], axis=1)
    elements = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    scales = blocks[:, :1].view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    values = (elements * scales).astype("<f4")
    # 2^127 x 4 and more is beyond float32.
    assert not np.isnan(values).any()
    from_gguf = dequantize(blocks, Type.MXFP4)
    assert np.array_equal(from_gguf, values)
    return blocks, values, 32, 17


def write_blocks(path, blocks, values, elements, size):
    header = struct.pack("<III", len(blocks), size, elements)
    path.write_bytes(header + blocks.tobytes() + np.ascontiguousarray(values).tobytes())


def table(dtype, codes):
    return np.arange(codes, dtype=np.uint8).view(dtype).astype("<f4")


def magnitudes(dtype, unsigned, codes):
    """Finite values of the positive codes, ascending, in float64."""
    values = np.asarray(codes, dtype=unsigned).view(dtype).astype(np.float64)
    return values[np.isfinite(values)]


def encode_cases(dtype, unsigned, codes, beyond):
    """Every code, every tie and its neighbours; `beyond` adds magnitudes that saturate nowhere."""
    exact = magnitudes(dtype, unsigned, codes)
    ties = ((exact[:-1] + exact[1:]) / 2).astype(np.float32)
    values = [exact.astype(np.float32), ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(0))]
    tiny = np.array([1e-45, 1e-40, 1.17549435e-38, 1e-30], dtype=np.float32)
    positive = np.concatenate(values + [tiny, np.array(beyond, dtype=np.float32)])
    return np.concatenate([positive, -positive]).astype("<f4")


def write_encode(path, dtype, unsigned, values, nan):
    if nan:
        values = np.append(values, np.array([np.nan, -np.nan], dtype="<f4"))
    with np.errstate(over="ignore"):
        codes = values.astype(dtype).view(unsigned).astype("<u2")
    records = b"".join(v.tobytes() + c.tobytes() for v, c in zip(values, codes))
    path.write_bytes(struct.pack("<I", len(values)) + records)


def spread(last, around):
    """Codes near exponent boundaries, for formats with too many codes to list."""
    return sorted({c + d for c in around for d in range(-2, 3) if 0 <= c + d <= last})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/codecs"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for kind in F16_FIELDS:
        write_blocks(out / f"{kind.name.lower()}.blocks", *gguf_blocks(kind, np.random.default_rng(int(kind))))
    with np.errstate(over="ignore"):
        write_blocks(out / "gguf_mxfp4.blocks", *mxfp4_blocks(np.random.default_rng(39)))

    for name, dtype, codes in [("e4m3", ml_dtypes.float8_e4m3fn, 256), ("e5m2", ml_dtypes.float8_e5m2, 256),
                               ("e2m1", ml_dtypes.float4_e2m1fn, 16), ("e8m0", ml_dtypes.float8_e8m0fnu, 256)]:
        (out / f"{name}.table").write_bytes(table(dtype, codes).tobytes())

    for name, dtype, unsigned, codes, beyond, nan in [
            ("e4m3", ml_dtypes.float8_e4m3fn, np.uint8, range(0x7F), [463.99997, 464.0], True),
            ("e5m2", ml_dtypes.float8_e5m2, np.uint8, range(0x7C), [61439.996], True),
            ("e2m1", ml_dtypes.float4_e2m1fn, np.uint8, range(8), [7.0, 8.0, 1e30], False),
            ("f16", np.float16, np.uint16, spread(0x7BFF, [k << 10 for k in range(32)] + [1, 0x155, 0x2AA]),
             [65519.996, 65520.0, 1e6, np.inf], True),
            ("bf16", ml_dtypes.bfloat16, np.uint16,
             spread(0x7F7F, [k << 7 for k in range(0, 256, 15)] + [1, 0x3F80, 0x7F7F]),
             [3.3961776e38, 3.4028235e38, np.inf], True)]:
        write_encode(out / f"{name}.encode", dtype, unsigned, encode_cases(dtype, unsigned, codes, beyond), nan)


if __name__ == "__main__":
    main()
