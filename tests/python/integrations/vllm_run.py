"""Run by test_vllm.py in a process of its own: greedy tokens of its prompts, twice, as JSON.

Arguments: the model's folder, the prompts' file, and the file to write. Rotary embedding runs in
PyTorch: vLLM's own kernel rotates the wrong rows of MLA's queries (test_vllm.py shows it).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def libmla_calls(worker: Any) -> dict[str, int] | None:
    """In the worker's process: what libmla was asked for, None where its plugin was not loaded."""
    import sys

    plugin = sys.modules.get("libmla.vllm")
    return None if plugin is None else plugin.calls()


def main(model: str, prompts: str, out: str) -> None:
    from vllm import LLM, SamplingParams

    options = {}
    if "TEST_MAX_TOKENS" in os.environ:
        options["max_num_batched_tokens"] = int(os.environ["TEST_MAX_TOKENS"])
    llm = LLM(
        model=model, skip_tokenizer_init=True, dtype="float32", max_model_len=2048,
        enforce_eager=True, attention_backend="CPU_MLA", seed=0, max_num_seqs=8,
        compilation_config={"custom_ops": ["-rotary_embedding"]}, **options,
    )  # fmt: skip
    asked = [{"prompt_token_ids": prompt} for prompt in json.loads(Path(prompts).read_text())]
    sampling = SamplingParams(
        temperature=0.0, max_tokens=8, ignore_eos=True, detokenize=False, logprobs=2
    )
    rounds = []
    for _ in range(2):  # the second time from the prefix cache, where there is one
        results = llm.generate(asked, sampling, use_tqdm=False)
        rounds.append(
            {
                "tokens": [list(result.outputs[0].token_ids) for result in results],
                "best_two": [
                    [
                        sorted((entry.logprob for entry in step.values()), reverse=True)[:2]
                        for step in result.outputs[0].logprobs
                    ]
                    for result in results
                ],
                "cached": [result.num_cached_tokens or 0 for result in results],
            }
        )
    config = llm.llm_engine.vllm_config
    answer = {
        "rounds": rounds,
        "chunked": bool(config.scheduler_config.enable_chunked_prefill),
        "prefix": bool(config.cache_config.enable_prefix_caching),
        "calls": llm.collective_rpc(libmla_calls)[0],
    }
    Path(out).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
