"""The command ``eagerflow``."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import eagerflow as ef
from eagerflow.hardware import kernel_library
from eagerflow.hardware.freed_memory import keep_freed_memory
from eagerflow.hardware.large_pages import use_large_pages
from eagerflow_kernels.cuda.library import STATUS

#: the packages that `eagerflow info` lists, by the extra that installs them ("" for the base)
_PACKAGES = {
    "": ("numpy", "scipy", "ml_dtypes", "optree", "opt_einsum", "threadpoolctl", "pyzmq",
         "msgspec"),
    "notebook": ("jupyterlab", "ipykernel", "ipywidgets", "anywidget", "matplotlib",
                 "scikit-learn"),
    "gpu": ("cupy-cuda12x",),
    "native": ("llvmlite",),
    "dask": ("distributed",),
    "onnx": ("onnx", "onnxruntime"),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line ``arguments``, those of the process by default."""
    parser = argparse.ArgumentParser(
        prog="eagerflow", description="Arrays, gradients and dataflow graphs for notebooks."
    )
    parser.add_argument("--version", action="version", version=f"eagerflow {ef.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_demo(commands.add_parser("demo", help="train a classifier on handwritten digits"))
    _add_serve(commands.add_parser("serve", help="be a task of a cluster"))
    _add_keys(commands.add_parser("keys", help="make, show and revoke keys of tasks and clients"))
    info = commands.add_parser("info", help="show versions, devices and memory")
    info.set_defaults(run=lambda options: print("\n".join(_info())))
    options = parser.parse_args(arguments)
    options.run(options)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of the split and the initial values")
    parser.add_argument("--seeds", type=_positive, metavar="N", help="train with seeds 0 to N - 1")
    parser.add_argument("--epochs", type=_positive, help="passes over the training images")
    parser.add_argument(
        "--picture", type=Path, default=Path("eagerflow-digits.png"), help="where to draw"
    )
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    try:
        # scikit-learn and Matplotlib are for this command alone
        from eagerflow import demo
    except ModuleNotFoundError as error:
        if (error.name or "eagerflow").startswith("eagerflow"):
            raise
        sys.exit(f"the demo needs {error.name}: pip install 'eagerflow[notebook]'")
    seeds = [options.seed] if options.seeds is None else range(options.seeds)
    demo.main(seeds, epochs=options.epochs, picture=options.picture)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", required=True, help="name of the task, such as ps:0")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--folder", type=Path, help="folder of the sockets, for this user alone")
    where.add_argument(
        "--listen",
        metavar="tcp://HOST:PORT",
        help="address for clients; other tasks use the next port",
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--keys", type=Path, metavar="DIR", help="folder of keys, made by eagerflow keys"
    )
    who.add_argument(
        "--plain-tcp",
        action="store_true",
        help="do not encrypt, and accept every client that reaches the port: it may run ops, and"
        " read and change values",
    )
    parser.add_argument(
        "--allow-files", type=Path, metavar="DIR",
        help="let ops of clients read and write files in there; links are not followed",
    )  # fmt: skip
    parser.add_argument(
        "--allow-python", action="append", default=[], metavar="MODULE:FUNCTION",
        help="let ef.py_call of clients call that function here; may be given again",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-devices", type=_positive, default=1, help="number of its CPU devices"
    )
    parser.add_argument(
        "--kernels", choices=("auto", "native", "portable"), default="auto",
        help="the library that computes, as of ef.config(kernels=)",
    )  # fmt: skip
    parser.add_argument(
        "--with-parent", type=Path, metavar="DIR",
        help="end when standard input ends, and delete DIR if this was unexpected",
    )  # fmt: skip
    parser.set_defaults(run=_serve)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of the keys, for this user alone")
    parser.add_argument(
        "--task", action="append", default=[], metavar="NAME=tcp://HOST:PORT",
        help="make the keys of the task that will listen at this address",
    )  # fmt: skip
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME",
        help="make a connection file, for ef.cluster.connect",
    )  # fmt: skip
    parser.add_argument(
        "--revoke", action="append", default=[], metavar="NAME", help="revoke a key"
    )
    parser.set_defaults(run=_keys)


def _keys(options: argparse.Namespace) -> None:
    # ZeroMQ is for clusters alone
    from eagerflow.cluster.processes.keys import KeyFolder

    keys = KeyFolder(options.folder)
    for text in options.task:
        task, _, address = text.partition("=")
        keys.add_task(task, address)
    for name in options.client:
        print(f"wrote {keys.add_client(name)}")
    for name in options.revoke:
        keys.revoke(name)
    print("\n".join(keys.lines()))


def _serve(options: argparse.Namespace) -> None:
    # ZeroMQ is for clusters alone
    from eagerflow.cluster.processes import (
        listening,
    )
    from eagerflow.cluster.processes.keys import server_credentials
    from eagerflow.cluster.processes.overheard_output import OverheardOutput
    from eagerflow.cluster.processes.server import TaskServer
    from eagerflow.cluster.processes.server_grants import ServerGrants

    task = listening.checked_name(options.task)
    credentials = None
    if options.folder is not None:
        if options.keys is not None or options.plain_tcp:
            sys.exit("--folder needs no keys: no other user can enter it")
        listening.check_folder(options.folder)
        where = listening.doors_in(options.folder.resolve(), task)  # clients may use another path
    else:
        where = listening.doors_at(options.listen)
        if options.keys is not None:
            credentials = server_credentials(options.keys, task)
    ef.config(cpu_devices=options.cpu_devices, kernels=options.kernels)
    _ = ef.grad  # gradients have ops of their own
    grants = ServerGrants(options.allow_files, options.allow_python)
    server = TaskServer(task, where, ef.__version__, credentials, plain=options.plain_tcp,
                        grants=grants, freed=keep_freed_memory())  # fmt: skip
    gc.freeze()  # loaded objects stay: garbage collections need not visit them
    use_large_pages()
    print("ready", *server.doors, flush=True)
    left = options.with_parent
    if left is not None:  # stdout is not read: print to the log
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = OverheardOutput(sys.stdout, server.hears)
    sys.stderr = OverheardOutput(sys.stderr, server.hears)
    server.serve(None if left is None else sys.stdin.fileno(), left)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def _info() -> Iterator[str]:
    yield f"eagerflow {ef.__version__}, Python {platform.python_version()}, {platform.platform()}"
    for extra, packages in _PACKAGES.items():
        versions = [f"{p} {v}" for p in packages if (v := _version(p)) is not None]
        missing = f"none: pip install 'eagerflow[{extra}]'"
        yield f"  {extra or 'base':10} {', '.join(versions) or missing}"
    yield f"  {'kernels':10} {kernel_library.described()}"
    yield f"  {'GPUs':10} {STATUS}"
    for device in ef.devices():
        memory = ef.memory(device)
        sizes = (("in use", memory.in_use), ("limit", memory.limit), ("total", memory.total))
        known = ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in sizes if size)
        yield f"  {device!s:10} {known}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
