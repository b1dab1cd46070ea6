"""The command `vcctl tree`: each entry of a flow below the entries it waits for, with its state."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api.types import JOB_FLOWS, JOBS, Key
from pyroclast.views.documents import Row, document
from pyroclast.views.flows import draw_flow, flow_rows, flow_tree_lines
from pyroclast.views.jobs import is_waiting
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import FORMATS, Whole
from pyroclast_cli.views.reading import views_in
from pyroclast_cli.views.scope import NAMESPACE, existing, namespace_of
from pyroclast_cli.views.watching import WATCH, show

KINDS: Final = frozenset({"", "flow", "jobflow", "jf", "jobflows"})


async def _tree(context: Context) -> None:
    if len(context.arguments) != 1:
        raise Failure(f"name one flow, as NAME or flow/NAME; there are {len(context.arguments)} names")
    kind, _, name = context.arguments[0].rpartition("/")
    if kind.lower() not in KINDS or not name:
        raise Failure(f'"{context.arguments[0]}" is no flow; name it as NAME or flow/NAME')
    key = Key(namespace_of(context), name)
    if context.text("output") == "svg":
        context.say(draw_flow(str(key), (await _read(context, key))[1]).document())
        return

    async def read() -> Whole:
        flow, rows = await _read(context, key)
        phase = ((flow.get("status") or {}).get("state") or {}).get("phase")
        metadata = {"namespace": key.namespace, "name": key.name}
        whole = document("FlowTree", {"metadata": metadata, "phase": phase, "entries": rows})
        return Whole(whole, flow_tree_lines(flow, rows), f"jobflow.flow.volcano.sh/{key.name}", rows)

    await show(context, read, JOB_FLOWS, JOBS, namespace=key.namespace)


async def _read(context: Context, key: Key) -> tuple[dict[str, Any], list[Row]]:
    """Return the flow and a row for each of its entries.

    Raises:
        Failure: the flow does not exist.
    """
    flow = await existing(context, JOB_FLOWS, key, f"JobFlow {key}")
    jobs = await views_in(context.client, key.namespace)
    codes = {each.name: str(each.cause.code) for each in jobs if is_waiting(each.job)}
    return flow, list(flow_rows(flow, context.client.now(), codes))


TREE: Final = Leaf(
    "tree",
    "show the entries of a flow by what they wait for",
    _tree,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg"), WATCH),
    takes="FLOW",
    is_ours=True,
)
