# mypy: ignore-errors
# (Triton compiles these functions itself, and is there with CUDA only)
"""The operations between two matrix products of a decoding step, each a single Triton kernel.

A step of a small model has many small kernels, whose launches cost more than their arithmetic. Matrix products are
computed by the library; all operations between two of them are one kernel, including the B matrices of the adapters.
After the layer's own columns, the output of a product has `slots` times `rank` columns of A x for every layer that
shares the input; a row uses those of its adapter (-1: none). Tested in Triton's interpreter, on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16  # minimum of a matrix unit


@triton.jit
def _wide(
    narrow,
    pair,
    mine,
    adapter,
    stride,
    part,
    parts: tl.constexpr,
    width,
    cols,
    col_mask,
    RANK: tl.constexpr,
    acc,
):
    """acc += B h for a tile of rows, each with its own adapter: one product for every adapter in the tile."""
    r = tl.arange(0, RANK)
    first = tl.min(tl.where(adapter >= 0, adapter, 1 << 20), axis=0)
    last = tl.max(adapter, axis=0)
    for k in range(first, last + 1):
        seen = (adapter == k)[:, None]
        h = tl.load(
            narrow + mine[:, None] * stride + (k * parts + part) * RANK + r[None, :], mask=seen, other=0.0
        )
        t = tl.load(pair + (k * RANK + r)[:, None] * width + cols[None, :], mask=col_mask[None, :], other=0.0)
        acc += tl.dot(h, t, input_precision="ieee")
    return acc


@triton.jit
def _add_norm(x, y, y_width, weight, out, width, eps, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """x += y; out = rms_norm(x) * weight. One row each."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < width
    total = tl.load(x + row * width + cols, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        total += tl.load(y + row * y_width + cols, mask=inside, other=0.0).to(tl.float32)
        total = total.to(x.dtype.element_ty)
        tl.store(x + row * width + cols, total, mask=inside)
        total = total.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(total * total, axis=0) / width + eps)
    gain = tl.load(weight + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + cols, (total * scale * gain).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _add_wide(
    x, y, y_width, b, adapter, rows, width, RANK: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """x += y + B h for a tile of rows and columns."""
    mine = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = mine < rows
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    both = there[:, None] & inside[None, :]
    more = tl.load(y + mine[:, None] * y_width + cols[None, :], mask=both, other=0.0).to(tl.float32)
    whose = tl.load(adapter + mine, mask=there, other=-1)
    more = _wide(y + width, b, mine, whose, y_width, 0, 1, width, cols, inside, RANK, more)
    at = x + mine[:, None] * width + cols[None, :]
    more += tl.load(at, mask=both, other=0.0).to(tl.float32)
    tl.store(at, more.to(x.dtype.element_ty), mask=both)


@triton.jit
def _queries(
    y, y_width, b, adapter, bias, q_norm, k_norm, cos, sin, slots, places, done, q, keys, values,
    rows, n_out, capacity, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, RANK: tl.constexpr,
    BIAS: tl.constexpr, NORM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One head of query, key or value for a tile of rows: B h, bias, norm, rotation; into q or into the cache."""
    mine = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = mine < rows
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    low = head * 2 * HALF + half
    high = low + HALF
    part = (head >= HEADS).to(tl.int32) + (head >= HEADS + KV_HEADS).to(tl.int32)
    at = y + mine[:, None] * y_width
    one = tl.load(at + low[None, :], mask=there[:, None], other=0.0).to(tl.float32)
    two = tl.load(at + high[None, :], mask=there[:, None], other=0.0).to(tl.float32)
    if RANK > 0:
        whose = tl.load(adapter + mine, mask=there, other=-1)
        every = half < HALF
        one = _wide(y + n_out, b, mine, whose, y_width, part, 3, n_out, low, every, RANK, one)
        two = _wide(y + n_out, b, mine, whose, y_width, part, 3, n_out, high, every, RANK, two)
    if BIAS:
        one += tl.load(bias + low).to(tl.float32)[None, :]
        two += tl.load(bias + high).to(tl.float32)[None, :]
    if NORM:
        scale = 1.0 / tl.sqrt((tl.sum(one * one, axis=1) + tl.sum(two * two, axis=1)) / (2 * HALF) + eps)
        if part == 0:
            one *= scale[:, None] * tl.load(q_norm + half).to(tl.float32)[None, :]
            two *= scale[:, None] * tl.load(q_norm + HALF + half).to(tl.float32)[None, :]
        if part == 1:
            one *= scale[:, None] * tl.load(k_norm + half).to(tl.float32)[None, :]
            two *= scale[:, None] * tl.load(k_norm + HALF + half).to(tl.float32)[None, :]
    if part < 2:
        c = tl.load(cos + mine[:, None] * HALF + half[None, :], mask=there[:, None], other=0.0)
        s = tl.load(sin + mine[:, None] * HALF + half[None, :], mask=there[:, None], other=0.0)
        turned = one * c - two * s
        two = two * c + one * s
        one = turned
    if part == 0:
        into = q + mine[:, None] * (HEADS * 2 * HALF)
        tl.store(into + low[None, :], one.to(q.dtype.element_ty), mask=there[:, None])
        tl.store(into + high[None, :], two.to(q.dtype.element_ty), mask=there[:, None])
    else:
        live = there & (tl.load(done + mine, mask=there, other=1) == 0)
        slot = tl.load(slots + mine, mask=live, other=0)
        place = tl.load(places + mine, mask=live, other=0)
        kv = head - HEADS - (part - 1) * KV_HEADS
        offset = ((slot * KV_HEADS + kv) * capacity + place)[:, None] * (2 * HALF) + half[None, :]
        if part == 1:
            tl.store(keys + offset, one.to(keys.dtype.element_ty), mask=live[:, None])
            tl.store(keys + offset + HALF, two.to(keys.dtype.element_ty), mask=live[:, None])
        else:
            tl.store(values + offset, one.to(values.dtype.element_ty), mask=live[:, None])
            tl.store(values + offset + HALF, two.to(values.dtype.element_ty), mask=live[:, None])


@triton.jit
def _attend(
    q, keys, values, slots, places, done, out, capacity, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, GROUP: tl.constexpr, PADDED: tl.constexpr,
    DIM: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    """The queries that share one head of keys, of one row, over exactly the tokens in its slot."""
    row, kv = tl.program_id(0), tl.program_id(1)
    g, d, t = tl.arange(0, PADDED), tl.arange(0, DIM), tl.arange(0, TIMES)
    some = g < GROUP
    at = row * HEADS * DIM + (kv * GROUP + g)[:, None] * DIM + d[None, :]
    query = tl.load(q + at, mask=some[:, None], other=0.0)
    slot = tl.load(slots + row).to(tl.int64)
    count = tl.where(tl.load(done + row) == 0, tl.load(places + row) + 1, 0).to(tl.int32)
    base = (slot * KV_HEADS + kv) * capacity * DIM
    highest = tl.full((PADDED,), -1e30, tl.float32)
    total = tl.zeros((PADDED,), tl.float32)
    mixed = tl.zeros((PADDED, DIM), tl.float32)
    for start in range(0, count, TIMES):
        seen = start + t < count
        k = tl.load(keys + base + (start + t)[None, :] * DIM + d[:, None], mask=seen[None, :], other=0.0)
        scores = tl.dot(query, k, input_precision="ieee") * scale
        scores = tl.where(seen[None, :], scores, -1e30)
        now = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp(highest - now)
        weights = tl.exp(scores - now[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(values + base + (start + t)[:, None] * DIM + d[None, :], mask=seen[:, None], other=0.0)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        highest = now
    mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out + at, mixed.to(out.dtype.element_ty), mask=some[:, None])


@triton.jit
def _gate(
    y, y_width, b, adapter, out, rows, middle,
    RANK: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """silu(gate + B h) * (up + B h) for a tile of rows and columns."""
    mine = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = mine < rows
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < middle
    both = there[:, None] & inside[None, :]
    at = y + mine[:, None] * y_width + cols[None, :]
    gate = tl.load(at, mask=both, other=0.0).to(tl.float32)
    up = tl.load(at + middle, mask=both, other=0.0).to(tl.float32)
    if RANK > 0:
        whose = tl.load(adapter + mine, mask=there, other=-1)
        narrow = y + 2 * middle
        gate = _wide(narrow, b, mine, whose, y_width, 0, 2, 2 * middle, cols, inside, RANK, gate)
        up = _wide(narrow, b + middle, mine, whose, y_width, 1, 2, 2 * middle, cols, inside, RANK, up)
    found = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + mine[:, None] * middle + cols[None, :], found.to(out.dtype.element_ty), mask=both)


@triton.jit
def _draw_parts(logits, vocab, heat, parts, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the maximum of a block of a row's logits, and its softmax sums with and without temperature."""
    row, part = tl.program_id(0), tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(logits + row.to(tl.int64) * vocab + cols, mask=cols < vocab, other=-float("inf"))
    highest = tl.maximum(tl.max(found, axis=0), -1e30)
    power = tl.exp(found - highest)
    at = parts + (row * PARTS + part) * 4
    tl.store(at, highest)
    tl.store(at + 1, tl.sum(power, axis=0))
    tl.store(at + 2, tl.sum(tl.where(power > 0, power * found, 0.0), axis=0))
    tl.store(at + 3, tl.sum(tl.exp((found - highest) * heat), axis=0))


@triton.jit
def _draw_whole(
    logits, vocab, heat, parts, uniform, tokens, log_probs, raw_log_probs, entropy,
    PARTS: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the token at which the row's cumulative probability exceeds its uniform number: block, then token."""
    row = tl.program_id(0)
    part = tl.arange(0, PADDED)
    inside = part < PARTS
    at = parts + (row * PARTS + part) * 4
    highest = tl.load(at, mask=inside, other=-1e30)
    top = tl.max(highest, axis=0)
    shrink = tl.exp(highest - top)
    mass = tl.sum(tl.load(at + 1, mask=inside, other=0.0) * shrink, axis=0)
    mean = tl.sum(tl.load(at + 2, mask=inside, other=0.0) * shrink, axis=0) / mass
    hot = tl.load(at + 3, mask=inside, other=0.0) * tl.exp((highest - top) * heat)
    total = tl.sum(hot, axis=0)
    target = tl.load(uniform + row) * total
    before = tl.cumsum(hot, axis=0) - hot
    # rounding could lead past the last block, or token, that has any probability
    block = tl.max(tl.where((before <= target) & (hot > 0), part, 0), axis=0)
    rest = target - tl.max(tl.where(part == block, before, 0.0), axis=0)
    cols = block * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(logits + row.to(tl.int64) * vocab + cols, mask=cols < vocab, other=-float("inf"))
    power = tl.exp((found - top) * heat)
    before = tl.cumsum(power, axis=0) - power
    token = tl.max(tl.where((before <= rest) & (power > 0), cols, 0), axis=0)
    own = tl.max(tl.where(cols == token, found, -float("inf")), axis=0)
    tl.store(tokens + row, token.to(tl.int64))
    tl.store(raw_log_probs + row, own - top - tl.log(mass))
    tl.store(log_probs + row, (own - top) * heat - tl.log(total))
    tl.store(entropy + row, top + tl.log(mass) - mean)


def add_norm(
    x: Tensor, y: Tensor | None, b: Tensor | None, adapter: Tensor, weight: Tensor, out: Tensor, eps: float
) -> None:
    """x [R, D] += y[:, :D] + its adapter's share (b [slots, rank, D]); out = the norm of x."""
    rows, width = x.shape
    if y is not None and b is not None:
        block = 64
        _add_wide[(triton.cdiv(rows, ROWS), triton.cdiv(width, block))](
            x, y, y.stride(0), b, adapter, rows, width, RANK=b.shape[1], BLOCK=block, ROWS=ROWS, num_warps=4
        )
        y = None
    given = x if y is None else y
    _add_norm[(rows,)](
        x, given, given.stride(0), weight, out, width, eps,
        ADD=y is not None, BLOCK=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip


def queries(
    y: Tensor, b: Tensor | None, adapter: Tensor, block: Any, turn: tuple[Tensor, Tensor], slots: Tensor,
    places: Tensor, done: Tensor, q: Tensor, keys: Tensor, values: Tensor, eps: float,
) -> None:  # fmt: skip
    """From the qkv product y to q [R, heads, d], and this token's key and value into its slot of the cache."""
    rows, heads, dim = q.shape
    kv_heads, capacity = keys.shape[1], keys.shape[2]
    none = y
    _queries[(triton.cdiv(rows, ROWS), heads + 2 * kv_heads)](
        y, y.stride(0), none if b is None else b, adapter,
        none if block.qkv_bias is None else block.qkv_bias,
        none if block.q_norm is None else block.q_norm,
        none if block.k_norm is None else block.k_norm,
        *turn, slots, places, done, q, keys, values, rows, (heads + 2 * kv_heads) * dim, capacity, eps,
        HEADS=heads, KV_HEADS=kv_heads, HALF=dim // 2, RANK=0 if b is None else b.shape[1],
        BIAS=block.qkv_bias is not None, NORM=block.q_norm is not None, ROWS=ROWS, num_warps=2,
    )  # fmt: skip


def attend(
    q: Tensor, keys: Tensor, values: Tensor, slots: Tensor, places: Tensor, done: Tensor, out: Tensor
) -> None:
    """out [R, heads * d]: q over its slot's keys and values [slots, kv_heads, capacity, d] up to its position."""
    rows, heads, dim = q.shape
    kv_heads, capacity = keys.shape[1], keys.shape[2]
    group = heads // kv_heads
    _attend[(rows, kv_heads)](
        q, keys, values, slots, places, done, out, capacity, dim**-0.5,
        HEADS=heads, KV_HEADS=kv_heads, GROUP=group, PADDED=max(16, triton.next_power_of_2(group)),
        DIM=dim, TIMES=64, num_warps=4, num_stages=3,
    )  # fmt: skip


def gate(y: Tensor, b: Tensor | None, adapter: Tensor, out: Tensor) -> None:
    """out [R, I] from the gate and up product y."""
    rows, middle = out.shape
    block = 64
    _gate[(triton.cdiv(rows, ROWS), triton.cdiv(middle, block))](
        y, y.stride(0), y if b is None else b, adapter, out, rows, middle,
        RANK=0 if b is None else b.shape[1], BLOCK=block, ROWS=ROWS, num_warps=2,
    )  # fmt: skip


def draw_tokens(logits: Tensor, temperature: float, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, log-probabilities, raw ones and entropies of rows of float32 logits, by `uniform` [R] in [0, 1)."""
    rows, vocab = logits.shape
    block = min(4096, triton.next_power_of_2(vocab))
    parts = triton.cdiv(vocab, block)
    between = logits.new_empty(rows, parts, 4)
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    log_probs, raw, entropy = (logits.new_empty(rows) for _ in range(3))
    heat = 1.0 / temperature
    _draw_parts[(rows, parts)](logits, vocab, heat, between, PARTS=parts, BLOCK=block, num_warps=8)
    _draw_whole[(rows,)](
        logits, vocab, heat, between, uniform, tokens, log_probs, raw, entropy,
        PARTS=parts, PADDED=triton.next_power_of_2(parts), BLOCK=block, num_warps=8,
    )  # fmt: skip
    return tokens, log_probs, raw, entropy
