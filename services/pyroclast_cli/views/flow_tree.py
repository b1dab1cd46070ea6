"""`vcctl tree`: the entries of a flow below those that they wait for, with the state of each."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import JOB_FLOWS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.views.documents import document
from pyroclast.views.drawings import draw_flow
from pyroclast.views.flows import flow_rows, flow_tree_lines
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import FORMATS, write_one
from pyroclast_cli.views.scope import NAMESPACE, NO_SUCH_OBJECT, namespace_of

__all__ = ["TREE"]

KINDS: Final = frozenset({"", "flow", "jobflow", "jf", "jobflows"})


async def _tree(context: Context) -> None:
    if len(context.arguments) != 1:
        raise Failure(f"name one flow, as NAME or flow/NAME; there are {len(context.arguments)} names")
    kind, _, name = context.arguments[0].rpartition("/")
    if kind.lower() not in KINDS or not name:
        raise Failure(f'"{context.arguments[0]}" is no flow; name it as NAME or flow/NAME')
    key = Key(namespace_of(context), name)
    try:
        flow = await context.client.get(JOB_FLOWS, key)
    except NotFound:
        raise Failure(f"there is no JobFlow {key}", status=NO_SUCH_OBJECT) from None
    now = context.client.now()
    if context.text("output") == "svg":
        context.say(draw_flow(str(key), flow_rows(flow, now)).document())
        return
    phase = ((flow.get("status") or {}).get("state") or {}).get("phase")
    metadata = {"namespace": key.namespace, "name": key.name}
    rows = flow_rows(flow, now)
    whole = document("FlowTree", {"metadata": metadata, "phase": phase, "entries": rows})
    write_one(context, whole, flow_tree_lines(flow, now), reference=f"jobflow.flow.volcano.sh/{key.name}", rows=rows)


TREE: Final = Leaf(
    "tree",
    "show the entries of a flow by what they wait for",
    _tree,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg")),
    takes="FLOW",
    is_ours=True,
)
