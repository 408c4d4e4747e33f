"""Damaged inputs: mutations of every format that is read and of every file of a run, and what a command may say.

Mutations are of bytes, and of values: a JSON, TOML or safetensors file in which one value has another type or size,
with its hashes made to fit, so that what is behind them is reached."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import xxhash
from click.testing import CliRunner, Result
from tests.fuzz.runs import SETTINGS
from tests.graph.test_mutated import mutated

from transher.cli.main import main
from transher.files import sha256

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, -0.0, float("nan"), float("inf"),
    "", "x", "\x1b[31m", "../..", "9" * 5000, [], [[]], {}, {"": None}, [1, "a"], "x" * 100_000,
)  # fmt: skip
HASHED = 8  # bytes of the length that a safetensors file begins with


def call(*arguments: object, data: Path | None = None) -> Result:
    """data: where benchmarks are looked for."""
    environment = None if data is None else {"TRANSHER_DATA": str(data)}
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)


def complaint(result: Result) -> str:
    """What is wrong with how a command ended; nothing if it did well or told an error in a line."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {result.exception}"
    if result.exit_code not in (0, 1, 2):
        return f"exit code {result.exit_code}"
    if "Traceback" in result.output:
        return "a traceback"
    if "should not have" in result.stderr:
        return result.stderr.strip()  # the last catch: nobody foresaw it
    told = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    if result.exit_code and len(told) != 1:
        return f"{len(told)} lines of error"
    return ""


def odd_value(value: Any, chance: random.Random) -> Any:
    """The same JSON with one value in it changed, left out or doubled."""
    changed = copy.deepcopy(value)
    places = list(_places(changed))
    if not places:
        return chance.choice(ODD)
    holder, key = chance.choice(places)
    match chance.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case _:
            holder[key] = chance.choice(ODD)
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield value, key
        yield from _places(part)


def odd_json(data: bytes, chance: random.Random) -> bytes:
    return json.dumps(odd_value(json.loads(data), chance)).encode()


def odd_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines()
    if not lines:
        return b"{}"
    place = chance.randrange(len(lines))
    lines[place] = odd_json(lines[place], chance)
    return b"\n".join(lines) + b"\n"


def odd_toml(data: bytes, chance: random.Random) -> bytes:
    lines = data.decode().splitlines()
    # A training of 2³¹ steps is no error: it is what was asked for.
    place = chance.choice([number for number, line in enumerate(lines) if "=" in line and line[:6] != "steps "])
    key = lines[place].partition("=")[0]
    lines[place] = f"{key}= {json.dumps(chance.choice(ODD)).replace('null', '{}').replace('NaN', 'nan')}"
    return "\n".join(lines).encode()


def odd_safetensors(data: bytes, chance: random.Random) -> bytes:
    """A header with an odd value, or arrays with odd numbers, and a hash that fits."""
    length = int.from_bytes(data[:HASHED], "little")
    header, body = json.loads(data[HASHED : HASHED + length]), bytearray(data[HASHED + length :])
    if chance.random() < 0.5 and body:
        place = chance.randrange(0, len(body), 4)
        body[place : place + 4] = chance.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\xff\xff"])
    else:
        said = header.get("__metadata__", {})
        if "state" in said and chance.random() < 0.5:
            said["state"] = json.dumps(odd_value(json.loads(said["state"]), chance))
        else:
            header = odd_value(header, chance)
    if isinstance(header, dict) and isinstance(header.get("__metadata__"), dict):
        header["__metadata__"]["xxh3_128"] = xxhash.xxh3_128(bytes(body)).hexdigest()
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(HASHED, "little") + encoded + bytes(body)


ODD_BY_ENDING: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": odd_json,
    ".jsonl": odd_lines,
    ".toml": odd_toml,
    ".safetensors": odd_safetensors,
}
RESUME = ("train", "--out", "{run}", "--resume")
# What reads each file of a run, or the files in a folder of it, besides the loading of the run.
READS: dict[str, tuple[str, ...]] = {
    "ranks.parquet": ("compare", "{run}", "{other}"),
    "evaluation.json": ("compare", "{run}", "{other}"),
    "verdicts.jsonl": ("verdicts", "{run}"),
    "history.jsonl": RESUME,
    "optimizer.safetensors": RESUME,
    "recipe.toml": RESUME,
    "checkpoint.json": RESUME,
    "checkpoint": RESUME,
}
ASKS = ("predict", "{run}", "--head", "e001", "--relation", "r0", "--top", "3")
_SMALL = [part for setting in SETTINGS for part in ("--set", setting)]
# What reads a file of what is not a run: by kind, or by its name.
OTHERS: dict[str, tuple[str, ...]] = {
    "openke": ("stats", "{run}"),
    "ogb": ("stats", "ogbl-biokg"),
    "prepared": ("stats", "{run}"),
    "search": (
        *("search", "{other}/../graph.tsv", "--out", "{run}", "--trials", "1", *_SMALL),
        *("--space", "training.lr=0.01,0.1"),
    ),
    "facts.tsv": ("predict", "{other}", "--head", "e999", "--relation", "r0", "--with", "{run}/facts.tsv"),
    "names.tsv": ("stats", "{other}/../graph.tsv", "--entity-names", "{run}/names.tsv"),
    "recipe.toml": (
        *("train", "{other}/../graph.tsv", "--out", "{run}/out", "--recipe", "{run}/recipe.toml"),
        *("--set", "training.steps=1"),
    ),
}


def files_of(run: Path) -> list[Path]:
    """The files of a run, as paths within it."""
    return [
        path.relative_to(run)
        for path in sorted(run.rglob("*"))
        if path.is_file() and "tensorboard" not in path.parts and not path.name.startswith(".")
    ]


def damage(run: Path, name: Path, chance: random.Random) -> None:
    """Mutate a file of a run; in half of the cases the manifest says its new hash, so that its reader is reached."""
    path = run / name
    odd = ODD_BY_ENDING.get(path.suffix)
    data = path.read_bytes()
    path.write_bytes(odd(data, chance) if odd is not None and chance.random() < 0.6 else mutated(data, chance))
    manifest = run / "manifest.json"
    if path == manifest or chance.random() < 0.3 or not manifest.is_file():
        return
    said = json.loads(manifest.read_bytes())
    if str(name) in said["files"]:
        said["files"][str(name)] = sha256(path)
        manifest.write_text(json.dumps(said))


def commands_of(whole: Path, name: Path) -> list[tuple[str, ...]]:
    """What reads a file of a run, or of a folder of another kind."""
    if (whole / "manifest.json").is_file():
        reads = READS.get(name.name) or READS.get(name.parts[0])
        return [ASKS, reads] if reads else [ASKS]
    return [OTHERS.get(whole.name) or OTHERS[name.name]]


def try_one(kind: str, wholes: dict[str, Path], place: Path, name: Path, seed: int) -> str:
    """What is wrong with how the commands take a run, or a folder of another kind, with a damaged file; nothing if all
    is well."""
    run = copied(wholes[kind], place)
    damage(run, name, random.Random(f"{name} {seed}"))
    commands = commands_of(wholes[kind], name)
    if RESUME in commands:
        (run / "manifest.json").unlink(missing_ok=True)
    for command in commands:
        found = complaint(told_of(command, run, wholes))
        if found:
            return f"{command[0]}: {found}"
    return ""


def copied(whole: Path, place: Path) -> Path:
    run = place / "run"
    shutil.rmtree(run, ignore_errors=True)
    return Path(shutil.copytree(whole, run))


def told_of(command: tuple[str, ...], run: Path, wholes: dict[str, Path]) -> Result:
    return call(*(part.format(run=run, other=wholes["vectors"]) for part in command), data=run)
