"""`torchrun` on several nodes. The script is sent with the Job, and the pods connect to the first pod."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyroclast_client import defaults
from pyroclast_client.errors import Usage
from pyroclast_client.options import Call, options_of
from pyroclast_client.payload import Arguments

if TYPE_CHECKING:
    from pyroclast_client.jobs import Job


PORT: Final = 29500


def torchrun(script: str | Path, *args: object, nodes: int = 1, per_node: int = 1, port: int = PORT, **options: Any) -> Job[None]:  # noqa: ANN401 - see below
    """Run a script with `torchrun`, as a gang of `nodes` pods with `per_node` processes each.

    Args:
        script: a file of this machine, which is sent with the Job.
        args: the arguments of the script.
        nodes: how many pods.
        per_node: how many processes in each pod.
        port: the port at which the first pod listens for the other pods.
        options: options of `task`, such as `image`, `gpus` and `queue`.
    """
    return defaults.client().submit(torchrun_call(script, *args, nodes=nodes, per_node=per_node, port=port, **options))


def torchrun_call(
    script: str | Path,
    *args: object,
    nodes: int = 1,
    per_node: int = 1,
    port: int = PORT,
    **options: Any,  # noqa: ANN401 - see above
) -> Call[None]:
    """Return the call of `torchrun`, which any client can submit.

    Raises:
        Usage: the script cannot be read.
    """
    path = Path(script)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise Usage(f"torchrun: {path}: {error.strerror}; give the path of a script") from error
    launched = _launcher(path.name, source, [str(each) for each in args], nodes, per_node, port)
    name = path.stem.replace("_", "-")
    return Call(launched, Arguments(), options_of({"gang": nodes, **options}), name)


def _launcher(name: str, source: bytes, args: list[str], nodes: int, per_node: int, port: int) -> Callable[[], None]:  # noqa: PLR0917 - all arguments are pickled
    """Return the function that starts torchrun in a pod. A nested function is pickled by value: pods do not have this module."""

    def launch() -> None:
        import os  # noqa: PLC0415 - in the pod
        import subprocess  # noqa: PLC0415 - in the pod
        import tempfile  # noqa: PLC0415 - in the pod

        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, name)
            with open(script, "wb") as file:
                file.write(source)
            hosts = os.environ.get("VC_MAIN_HOSTS") or "127.0.0.1"
            command = [  # PyTorch 1 knows no flags with hyphens
                "torchrun",
                f"--nnodes={nodes}",
                f"--node_rank={os.environ['PYROCLAST_INDEX']}",
                f"--nproc_per_node={per_node}",
            ]
            command += [f"--master_addr={hosts.split(',')[0]}", f"--master_port={port}", script, *args]
            process = subprocess.Popen(command)  # noqa: S603 - the user's command
            try:
                code = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if code:
            raise SystemExit(code)

    return launch
