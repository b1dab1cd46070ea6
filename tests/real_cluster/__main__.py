"""`python -m tests.real_cluster check | build | up | down | load | node | sizes`: a cluster of real nodes on this machine."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tests.control_plane import build
from tests.real_cluster import images
from tests.real_cluster.cluster import obstacle, real_cluster, remove
from tests.real_cluster.node import Node


def main() -> int:
    arguments = _parser().parse_args()
    hindrance = obstacle()
    if hindrance:
        print(f"no real cluster can run here: {hindrance}", file=sys.stderr)
        return 1
    if arguments.command == "check":
        return 0
    if arguments.command == "down":
        remove(arguments.dir.absolute())
        return 0
    if arguments.command == "load":
        for folder in sorted(arguments.dir.absolute().glob("node-*/")):
            Node(int(folder.name.rpartition("-")[2]), folder).load(arguments.archive)
        return 0
    if arguments.command == "node":
        return _node(arguments)
    if arguments.command == "sizes":
        layers = images.sizes(images.project_images())
        shared = set.intersection(*map(set, layers.values()))
        print("| Image | Unpacked | Of it shared by all images |\n|---|---|---|")
        for target, of_target in layers.items():
            common = sum(size for layer, size in of_target.items() if layer in shared)
            print(f"| `{target}` | {sum(of_target.values()) / 1e6:.0f} MB | {common / 1e6:.0f} MB |")
        return 0
    build.build([*build.names(), *(tool.name for tool in build.of_nodes())])
    archives = [images.project_images()] if arguments.ours else []
    if arguments.command == "up":
        asyncio.run(_serve(arguments, archives))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.real_cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build the programs and images that are not in the cache")
    serving = commands.add_parser("up", help="run a cluster until SIGTERM or ^C")
    for command in (building, serving):
        command.add_argument("--ours", action="store_true", help="with the images of this checkout")
    serving.add_argument("--nodes", type=int, default=3, help="how many nodes")
    commands.add_parser("check", help="say whether this machine can run one, and exit with 1 if it cannot")
    commands.add_parser("sizes", help="print a table of the sizes of the images of this checkout")
    node = commands.add_parser("node", help="cut the power of a node, bring it back, or run a command on it")
    node.add_argument("action", choices=["cut-power", "start", "stop-kubelet", "start-kubelet", "enter"])
    node.add_argument("index", type=int, help="its number, from 1")
    node.add_argument("words", nargs=argparse.REMAINDER, help="the command for `enter`")
    loading = commands.add_parser("load", help="give all nodes an image")
    loading.add_argument("archive", type=Path, help="an archive of the image, as docker or buildah writes it")
    ending = commands.add_parser("down", help="end what a cluster left that was killed")
    for command in (serving, ending, loading, node):
        command.add_argument("--dir", type=Path, required=True, help="data, keys, logs and the kubeconfig")
    return parser


def _node(arguments: argparse.Namespace) -> int:
    node = Node(arguments.index, arguments.dir.absolute() / f"node-{arguments.index}")
    actions = {
        "cut-power": node.cut_power,
        "start": node.start,
        "stop-kubelet": node.stop_kubelet,
        "start-kubelet": node.start_kubelet,
    }
    if arguments.action == "enter":
        print(node.enter(*arguments.words), end="")
    else:
        actions[arguments.action]()
    return 0


async def _serve(arguments: argparse.Namespace, archives: list[Path]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with real_cluster(arguments.dir, nodes=arguments.nodes, archives=archives) as cluster:
        print(f"ready KUBECONFIG={cluster.access.kubeconfig}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
