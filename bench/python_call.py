"""What a Python call costs: attend() of 16 tokens whose arithmetic is next to nothing (one head of 8
elements), so that its whole time is a bound from above of the overhead over C++.

    python bench/python_call.py [--rounds 30] [--calls 300]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import libmla

TOKENS, HEADS, WIDTH = 16, 1, 8


def best_microseconds(call: Callable[[], Any], rounds: int, calls: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time() - begin) / calls)
    return best * 1e6


def cases(kind: str) -> dict[str, Callable[[], Any]]:
    arrays: list[Any] = [np.ones((TOKENS, HEADS, WIDTH), np.float32) for _ in range(4)]
    if kind == "torch":
        import torch

        arrays = [torch.from_numpy(array) for array in arrays]
    q, k, v, out = arrays
    cu = np.array([0, TOKENS], np.int32)
    return {
        "attend, out=": lambda: libmla.attend(q, k, v, cu, cu, out=out, num_threads=1),
        "attend": lambda: libmla.attend(q, k, v, cu, cu, num_threads=1),
        "attend, return_lse": lambda: libmla.attend(q, k, v, cu, cu, return_lse=True, num_threads=1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    for kind in ("numpy", "torch"):
        try:
            calls = cases(kind)
        except ImportError:
            print(f"{kind} is not installed")
            continue
        for name, call in calls.items():
            print(f"{kind:6} {name:20} {best_microseconds(call, options.rounds, options.calls):6.1f} us")


if __name__ == "__main__":
    main()
