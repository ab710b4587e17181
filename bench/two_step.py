#!/usr/bin/env python3
"""The prefill operator beside the two-step way: context projected to K and V in memory, then attended.

Two steps: the latents of the context are gathered from their pages and multiplied with kv_b_proj by
PyTorch, K and V are attended without a mask by the same row of libmla, and the result is merged with
that of the new tokens. The operator gets the same pages and weights. Answers are compared before
anything is timed; then both take turns. Prints the ratio of the medians, and the memory beside inputs
and outputs that each needs. Needs torch and the libmla package; installs nothing.
"""

import argparse
import json
import statistics
import sys
import time

from compare_torch import load

NOPE, ROPE, V_DIM, RANK, BLOCK = 128, 64, 128, 512, 16
SCALE = (NOPE + ROPE) ** -0.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--backend", default=None, help="row, CPU:avx2 for one (default: selection)")
    parser.add_argument("--new", default="2048", help="numbers of new tokens")
    parser.add_argument("--context", default="8192,32768", help="tokens in the cache")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class Step:
    """One request: `new` tokens after `context` that lie in shuffled pages."""

    def __init__(self, torch, libmla, options, new, context):
        self.torch, self.libmla, self.options = torch, libmla, options
        self.new, self.context, self.heads = new, context, options.heads
        dtype = getattr(torch, options.dtype)
        generator = torch.Generator().manual_seed(1)

        def random(*shape, deviation=1.0):
            return (torch.randn(*shape, generator=generator) * deviation).to(dtype)

        self.q = random(new, self.heads, NOPE + ROPE)
        self.kv_c, self.k_pe = random(new, RANK), random(new, ROPE)
        self.weight = random(self.heads * (NOPE + V_DIM), RANK, deviation=RANK**-0.5)
        blocks = -(-(context + new) // BLOCK)
        self.pages = random(blocks, BLOCK, RANK + ROPE)
        self.table = torch.randperm(blocks, generator=generator).to(torch.int32).unsqueeze(0)
        self.operator = libmla.PrefillOperator(
            self.weight, num_heads=self.heads, dims=(NOPE, ROPE, V_DIM), kv_lora_rank=RANK,
            dtype=options.dtype, backend=options.backend, form="expanded")
        self.plan = self.operator.plan([0, new], [context], self.table, num_threads=options.threads)
        self.two_step_bytes = 0

    def one_pass(self):
        return self.operator.run(self.plan, self.q, self.kv_c, self.k_pe, self.pages)

    def project(self, latents, rope):
        """K and V [keys, heads, .], and the bytes that they take."""
        kv = (latents @ self.weight.T).view(-1, self.heads, NOPE + V_DIM)
        shared = rope.unsqueeze(1).expand(-1, self.heads, -1)
        k = self.torch.cat((kv[..., :NOPE], shared), dim=-1)
        return k, kv[..., NOPE:], (k.numel() + kv.numel()) * k.element_size()

    def attend(self, k, v, causal):
        offsets = [0, self.new], [0, k.shape[0]]
        return self.libmla.attend(self.q, k, v, *offsets, scale=SCALE, causal=causal, return_lse=True,
                                  backend=self.options.backend, num_threads=self.options.threads)

    def two_steps(self):
        rows = self.pages[self.table[0].long()].flatten(0, 1)[: self.context]
        k, v, size = self.project(rows[:, :RANK], rows[:, RANK:])
        self.two_step_bytes = size + rows.numel() * rows.element_size()
        context = self.attend(k, v, False)
        new = self.attend(*self.project(self.kv_c, self.k_pe)[:2], True)
        return self.libmla.merge(*context, *new)[0]


def measure(step, options):
    """Median seconds of both, taken in turns; thread CPU time with one thread."""
    difference = (step.one_pass().float() - step.two_steps().float()).abs().max().item()
    if not difference < 0.1:
        sys.exit(f"two_step.py: answers differ by {difference}")
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    taken = {step.one_pass: [], step.two_steps: []}
    for _ in range(options.samples):
        for call, seconds in taken.items():
            begin = clock()
            call()
            seconds.append(clock() - begin)
    one, two = (statistics.median(seconds) for seconds in taken.values())
    return {"new": step.new, "context": step.context, "heads": step.heads, "threads": options.threads,
            "dtype": options.dtype, "largest_difference": difference, "two_step_over_operator": two / one,
            "operator_scratch_bytes": step.plan.scratch_bytes, "two_step_bytes": step.two_step_bytes}


def main():
    options = arguments()
    torch, libmla = load(options, "two_step.py")
    torch.set_num_threads(options.threads)
    results = []
    for context in (int(x) for x in options.context.split(",")):
        for new in (int(x) for x in options.new.split(",")):
            result = measure(Step(torch, libmla, options, new, context), options)
            results.append(result)
            if not options.json:
                print("{new} new over {context}, H={heads}, {dtype}, {threads} thread(s): two steps take "
                      "{two_step_over_operator:.2f} x the time of the operator".format(**result))
                print(f"  scratch {result['operator_scratch_bytes'] / 2**20:.0f} MiB, two steps "
                      f"{result['two_step_bytes'] / 2**20:.0f} MiB")
    if options.json:
        print(json.dumps({"torch": torch.__version__, "libmla": libmla.__version__,
                          "backend": options.backend, "results": results}))


if __name__ == "__main__":
    main()
