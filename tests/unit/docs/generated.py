"""The pages that are made from code and from the notebook: `python -m tests.unit.docs.generated` writes them anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import yaml

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.pictures.timeline import Lane, Span, timeline
from pyroclast.runtime.fields import format_duration
from pyroclast_cli.slurm.options import options
from tests.unit.chart.accounts import ATTEMPTS
from tests.unit.chart.values_schema import SCHEMA, SETTINGS, VALUES
from tests.unit.docs.pages import DOCS, ROOT

REFERENCE = DOCS / "reference"
NOTEBOOK = ROOT / "examples" / "python" / "notebook.ipynb"
_BUILT_IN: Final = ("metadata", "template", "volumeClaim")
"""Properties whose fields Kubernetes documents."""
_NOTE: Final = "<!-- made by `python -m tests.unit.docs.generated`; do not edit -->"
_PROGRAMS: Final = {"controller": "job-controller", "jobflow": "jobflow-controller"}


def fields_page() -> str:
    """Every field of every kind, from the CRDs."""
    parts = [
        f"# Fields of all objects\n\n{_NOTE}\n",
        "This page lists all fields of the CRDs. `[]` marks a list, and `{}` marks a map.",
        "`kubectl explain vcjob.spec` shows the same on a cluster.\n",
    ]
    for definition in sorted(custom_resource_definitions(), key=lambda each: str(each["spec"]["names"]["kind"])):
        spec = definition["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            parts.append(f"## {spec['names']['kind']}\n\n`{spec['group']}/{version['name']}`. {schema.get('description', '')}\n")
            rows = [row for name in ("spec", "status") if name in schema["properties"] for row in _field_rows(name, schema)]
            if not rows:
                rows = [row for name in schema["properties"] if name not in _COMMON for row in _field_rows(name, schema)]
            parts.append(_table(("Field", "Type", "Meaning"), rows))
    return "\n".join(parts)


_COMMON: Final = ("apiVersion", "kind", "metadata")


def _field_rows(name: str, schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    field = schema["properties"][name]
    path, of = f"{prefix}{name}", field
    while True:
        if "items" in of:
            path, of = f"{path}[]", of["items"]
        elif isinstance(of.get("additionalProperties"), dict):
            path, of = f"{path}{{}}", of["additionalProperties"]
        else:
            break
    required = ", required" if name in schema.get("required", ()) else ""
    yield f"`{path}`", f"{_type(of)}{required}", field.get("description") or of.get("description", "")
    if name not in _BUILT_IN:
        for inner in of.get("properties", ()):
            yield from _field_rows(inner, of, f"{path}.")


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in field:
        return "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    return str(field.get("format") or field.get("type", "any"))


def values_page() -> str:
    """Every value of the chart, from its values file and schema."""
    schema, defaults = json.loads(SCHEMA.read_text()), yaml.safe_load(VALUES.read_text())
    parts = [f"# Values of the chart\n\n{_NOTE}\n", "This page lists all values of `charts/pyroclast/values.yaml`.\n"]
    for section, values in defaults.items():
        told = schema["properties"][section]
        known = told.get("properties", {})
        rows = [
            (f"`{section}.{name}`", _code(value), known.get(name, {}).get("description", "")) for name, value in values.items()
        ]
        parts += [f"## {section}\n\n{told['description']}\n", _table(("Value", "Default", "Meaning"), rows)]
    return "\n".join(parts)


def settings_page() -> str:
    """Every flag of every program, from its settings."""
    parts = [
        f"# Settings of the programs\n\n{_NOTE}\n",
        "You can also set the flag `--some-name` by the environment variable `PYROCLAST_SOME_NAME`,",
        "or by the key `some-name` in the file of `--config`.",
        "A flag overrides the variable, and the variable overrides the file.\n",
    ]
    for name, settings in SETTINGS.items():
        rows = [
            (f"`--{field.replace('_', '-')}`", _code(info.default), info.description or "")
            for field, info in sorted(settings.model_fields.items())
        ]
        parts += [f"## pyroclast-{_PROGRAMS.get(name, name)}\n", _table(("Flag", "Default", "Meaning"), rows)]
    return "\n".join(parts)


def tokens_page() -> str:
    """What the policies of the accounts refuse, from the rows that the tests try."""
    names = {"controllers": "job controller", "jobflow": "JobFlow controller"}
    rows = [(names.get(each.account, each.account), each.words, f"…{each.want}…") for each in ATTEMPTS if each.want]
    parts = [
        f"# What a stolen token cannot do\n\n{_NOTE}\n",
        "A role of Kubernetes allows a verb for all objects of a kind or for none. Admission policies hold each ServiceAccount",
        "of Pyroclast to the objects that its service works on (`custom.account_policies_enable`). The tests send each request",
        "of the table with the account of the service.",
        "[Security](../explanation/security.md#a-stolen-token) says what a token can still do.\n",
        _table(("Account of the", "is not allowed to", "The refusal says"), rows),
    ]
    return "\n".join(parts)


def slurm_page() -> str:
    """Every option of Slurm, from the table by which the commands read them."""
    groups: dict[str, list[tuple[str, ...]]] = {"mapped": [], "accepted": [], "refused": []}
    for each in options():
        where = "" if len(each.commands) > 1 else "sbatch" if each.commands == ("sbatch",) else "srun, run, shell"
        kind = "mapped" if each.means else "accepted" if each.accepted else "refused"
        groups[kind].append((f"`{each.usage}`", where, each.means or each.accepted or each.refused))
    heads = ("Option", "Only of", "Becomes")
    parts = [
        f"# Options of Slurm\n\n{_NOTE}\n",
        "`sbatch`, `srun`, `salloc`, `vcctl run` and `vcctl shell` read these options as Slurm does.",
        "[Coming from Slurm](../how-to/come-from-slurm.md) shows their use.\n",
        "## Options that become a field\n",
        _table(heads, groups["mapped"]),
        "## Options without effect\n\nThe commands accept these options, and print a note that says why they have no effect.\n",
        _table((*heads[:2], "Because"), groups["accepted"]),
        "## Refused options\n\nThe commands refuse these options. `--leave-out=OPTION,…` submits a script without them.\n",
        _table((*heads[:2], "Because, and what helps"), groups["refused"]),
        "## Variables in a script\n",
        _table(("Variable", "Value"), SLURM_VARIABLES),
    ]
    return "\n".join(parts)


SLURM_VARIABLES: Final = [
    ("`SLURM_JOB_ID`, `SLURM_JOB_NAME`", "the name of the Job"),
    ("`SLURM_NTASKS`, `SLURM_PROCID`, `SLURM_LOCALID`", "the tasks of a step, and the rank of this one; `srun` sets them"),
    ("`SLURM_JOB_NUM_NODES`, `SLURM_NODEID`", "the pods of the Job, and the index of this one"),
    (
        "`SLURM_JOB_NODELIST`",
        "the host names of the pods, separated by commas; `scontrol show hostnames` prints one for each line",
    ),
    ("`SLURM_CPUS_PER_TASK`", "what `--cpus-per-task` says"),
    ("`SLURM_SUBMIT_DIR`", "the folder in which the script starts"),
    ("`SLURM_ARRAY_JOB_ID`, `SLURM_ARRAY_TASK_ID`, `…_COUNT`, `…_MIN`, `…_MAX`", "the array, and the index of this element"),
    ("`MASTER_ADDR`, `MASTER_PORT`, `RANK`, `LOCAL_RANK`, `WORLD_SIZE`", "what `torch.distributed` reads"),
    ("`PET_NNODES`, `PET_NODE_RANK`, `PET_MASTER_ADDR`, `PET_NPROC_PER_NODE`", "what `torchrun` takes in place of its flags"),
    ("`OMPI_MCA_orte_default_hostfile`, `PRTE_MCA_prte_default_hostfile`, `HYDRA_HOST_FILE`", "the hosts for `mpirun`"),
]


def notebook_page() -> str:
    """The cells of the example notebook, in which the first line is the heading of the page."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    heading, _, rest = "".join(cells[0]["source"]).partition("\n")
    source = "This page is [a notebook](../../examples/python/notebook.ipynb), which you can download and run.\n"
    parts = [f"{heading}\n\n{_NOTE}\n", source, f"{rest.strip()}\n"]
    for cell in cells[1:]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```\n" if cell["cell_type"] == "code" else f"{text}\n")
    return "\n".join(parts)


def _code(value: object) -> str:
    if isinstance(value, timedelta):
        value = format_duration(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"`{text}`" if text else ""


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return (
        "\n".join("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in line) + " |" for line in lines) + "\n"
    )


def timeline_picture() -> str:
    """The timeline of a gang: it waits as a whole, and one pod pulls its image longer than the others."""
    lanes = []
    for index in range(4):
        ready = 58 if index == 2 else 46 + index
        spans = (Span("waiting", 0, 42), Span("starting", 42, ready), Span("running", ready, 150))
        lanes.append(Lane(f"train-worker-{index}", spans))
    return timeline("default/train", lanes).document() + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "fields.md": fields_page,
    "chart-values.md": values_page,
    "settings.md": settings_page,
    "stolen-tokens.md": tokens_page,
    "slurm.md": slurm_page,
    "../tutorials/notebook.md": notebook_page,
    "../how-to/gang-timeline.svg": timeline_picture,
}
"""What makes each page, by its path from the reference."""


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make())


if __name__ == "__main__":
    main()
