"""Train the distilled student: ``python -m playground.models.distill train --minutes 110``.

The student (six of the default model's thirty layers, ``student.LAYERS``, embeddings and head
shared) learns the teacher's full next-token distributions on text that the teacher wrote. It is
the amateur of the contrastive view and the draft of the speculative one.

Commands (each resumes where it stopped: a kill loses a minute or two, a pause only its own time):
- ``sample``: write shards of the teacher's text until ``--tokens`` are there.
- ``train``: train until ``--minutes`` or ``--until`` have passed, on the shards that are there;
  new ones are taken up as they come. Start both side by side, with one thread each: on a busy
  machine two processes of one thread get further than one whose threads wait for each other.
- ``evaluate``: held-out figures of the newest checkpoint.
- ``export``: write assets/student (weights in float16, and the model card with the figures).
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import time
from pathlib import Path

import torch

from playground.models.cache import cache_folder
from playground.models.default import bring_default, manifest_fingerprint
from playground.models.distill_data import SHAPES, Shard, exact_hidden, sample, save_shard, shards
from playground.models.distill_prompts import Prompts
from playground.models.distill_train import HELD_OUT, Trainer, load_teacher, log, train
from playground.models.views import STUDENT


class Sampler:
    """Writes the next shard of a split."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder, self.path = args.folder, args.teacher
        self.model, self.tokenizer = load_teacher(args.teacher, torch.bfloat16)

    def write(self, split: str) -> None:
        """Sample a shard and save it."""
        index = len(shards(self.folder, split))
        held_out = split == "held-out"
        prompts = Prompts(
            lambda text: self.tokenizer(text, add_special_tokens=False)["input_ids"],
            self.model.config.vocab_size,
            seed=index,
            held_out=held_out,
        )
        rows, length = (64, 256) if held_out else SHAPES[index % len(SHAPES)]
        start = time.time()
        arrays = sample(self.model, prompts, 2 * index + held_out, rows, length)
        if held_out:  # the yardstick is the exact model, not its bfloat16 shadow
            arrays["hidden"] = exact_hidden(
                load_teacher(self.path, torch.float32)[0], arrays["ids"]
            )
        save_shard(self.folder, split, index, arrays)
        speed = rows * length / (time.time() - start)
        log(f"sampled {split} {index}: {rows} x {length} tokens, {speed:.0f} tokens/s")


def write_corpus(args: argparse.Namespace) -> None:
    """Sample until the held-out shards and ``args.tokens`` of training text are there."""
    sampler = Sampler(args)
    while len(shards(args.folder, "held-out")) < HELD_OUT:
        sampler.write("held-out")
    while sum(Shard(p).ids.size for p in shards(args.folder, "train")) < args.tokens:
        if time.time() > args.end:
            break
        sampler.write("train")


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="playground.models.distill", description=__doc__)
    parser.add_argument("command", choices=("sample", "train", "evaluate", "export"))
    parser.add_argument("--teacher", help="folder of the default model (fetched unless given)")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "distill")
    parser.add_argument("--out", type=Path, default=STUDENT.parent, help="where export writes")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="size of the corpus")
    parser.add_argument("--minutes", type=float, default=110, help="allotted time")
    parser.add_argument("--until", help="HH:MM instead of --minutes")
    parser.add_argument("--every", type=float, default=8, help="minutes between evaluations")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    args.end = time.time() + 60 * args.minutes
    if args.until:
        clock = datetime.datetime.combine(
            datetime.date.today(), datetime.time.fromisoformat(args.until)
        )
        late = datetime.timedelta(days=clock < datetime.datetime.now())  # tomorrow's, then
        args.end = (clock + late).timestamp()
    args.teacher = args.teacher or str(bring_default())
    torch.set_num_threads(args.threads)
    keep_memory()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.command == "sample":
        write_corpus(args)
    elif args.command == "train":
        train(args)
    elif args.command == "evaluate":
        print(json.dumps(Trainer(args).evaluate(every=1), indent=1))
    else:
        from playground.models.distill_export import export

        print(export(Trainer(args), args.out, manifest_fingerprint(Path(args.teacher))))


def keep_memory() -> None:
    """Tell glibc to reuse big blocks: mapping them anew each step doubles a step's time."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-4, 0)  # M_MMAP_MAX
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # another C library: only slower


if __name__ == "__main__":
    main()
