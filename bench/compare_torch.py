#!/usr/bin/env python3
"""libmla beside PyTorch on the same causal MLA prompts, interleaved in one process.

Peers: PyTorch's flash kernel with v padded to the width of q and k, given contiguous head-major
tensors padded outside the timing (its most favourable form); its SDPA on the unpadded v; and the
formula of vLLM's CPU prefill backend (float32 matmul, softmax, logsumexp). Answers are compared
before anything is timed. Only ratios mean something on a shared machine: medians over samples taken
in turns. Needs torch and the libmla package; installs nothing.
"""

import argparse
import json
import os
import statistics
import sys
import time

QK_DIM, ROPE_DIM, V_DIM = 192, 64, 128
# A row is compared with PyTorch at the same instruction set; it reads these when it is imported.
TORCH_LEVEL = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "avx512_bf16": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--backend", default=None, help="row, CPU:avx2 for one (default: selection)")
    parser.add_argument("--lengths", default="512,2048", help="prompt lengths")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--peers", default="", help="only peers with one of these in their name, such as flash")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32", "float16"])
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def load(options, script="compare_torch.py"):
    """torch and libmla, or an exit that says what is missing."""
    variant = (options.backend or "").partition(":")[2]
    os.environ.update(TORCH_LEVEL.get(variant, {}))
    missing = []
    modules = []
    for name, hint in (("torch", "pip install torch"), ("libmla", "pip install . in the repository")):
        try:
            modules.append(__import__(name))
        except ImportError as error:
            missing.append(f"{name} ({error}); {hint}")
    if missing:
        sys.exit(f"{script}: missing " + "; ".join(missing))
    return modules


def contestants(torch, libmla, options, length):
    """{name: call} over one prompt; a call returns [tokens, heads, V_DIM]."""
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, options.dtype)

    def random(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)

    heads = options.heads
    q, k = random(length, heads, QK_DIM), random(length, heads, QK_DIM)
    v = random(length, heads, 2 * V_DIM)[..., V_DIM:]  # a view, as the projection leaves it
    offsets = torch.tensor([0, length], dtype=torch.int32)
    scale = QK_DIM**-0.5
    major = [x.transpose(0, 1).unsqueeze(0).contiguous() for x in (q, k, v)]
    padded_v = torch.nn.functional.pad(major[2], (0, QK_DIM - V_DIM))
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def ours():
        return libmla.attend(q, k, v, offsets, offsets, scale=scale, causal=True,
                             backend=options.backend, num_threads=options.threads)

    def flash_padded():
        out = sdpa(major[0], major[1], padded_v, is_causal=True, scale=scale)
        return out[0, ..., :V_DIM].transpose(0, 1)

    def sdpa_unpadded():
        out = sdpa(*major, is_causal=True, scale=scale)
        return out[0].transpose(0, 1)

    def vllm_formula():
        scores = torch.matmul(q.transpose(0, 1).float(), k.permute(1, 2, 0).float()) * scale
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask, float("-inf"))
        torch.logsumexp(scores, dim=-1)
        out = torch.matmul(torch.softmax(scores, dim=-1), v.transpose(0, 1).float())
        return out.transpose(0, 1).to(dtype)

    calls = {"libmla": ours, "torch flash, v padded": flash_padded, "torch sdpa": sdpa_unpadded}
    if heads * length * length * 4 <= 2 << 30:
        calls["vllm formula"] = vllm_formula
    wanted = options.peers.split(",")
    return {name: call for name, call in calls.items()
            if name == "libmla" or any(word in name for word in wanted)}


def verify(torch, calls):
    """Every contestant gives the same answer, within the rounding of its dtype."""
    answers = {name: call().float() for name, call in calls.items()}
    worst = max((x - answers["libmla"]).abs().max().item() for x in answers.values())
    if not worst < 0.06:
        sys.exit(f"compare_torch.py: answers differ by {worst}")
    return worst


def measure(calls, options):
    """Median seconds of each call, taken in turns; thread CPU time with one thread."""
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    seconds = {name: [] for name in calls}
    for _ in range(options.samples):
        for name, call in calls.items():
            begin = clock()
            call()
            seconds[name].append(clock() - begin)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def main():
    options = arguments()
    torch, libmla = load(options)
    torch.set_num_threads(options.threads)
    results = []
    for length in (int(x) for x in options.lengths.split(",")):
        calls = contestants(torch, libmla, options, length)
        error = verify(torch, calls)
        seconds = measure(calls, options)
        ratios = {name: taken / seconds["libmla"] for name, taken in seconds.items()}
        results.append({"length": length, "heads": options.heads, "threads": options.threads,
                        "dtype": options.dtype, "backend": options.backend, "largest_difference": error,
                        "times_libmla": ratios})
        if not options.json:
            print(f"S={length} H={options.heads} {options.dtype}, {options.threads} thread(s), "
                  f"{options.backend or 'selected row'}:")
            for name, ratio in ratios.items():
                print(f"  {name:24} {ratio:6.2f} x the time of libmla")
    if options.json:
        print(json.dumps({"torch": torch.__version__, "libmla": libmla.__version__,
                          "results": results}))


if __name__ == "__main__":
    main()
