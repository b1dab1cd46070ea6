"""The picture of a Job's phases is the table by which the job controller decides."""

from pyroclast.api.enums import JobPhase
from pyroclast.lifecycle.job.phase_transitions import MOVES, PROGRESS
from tests.unit.docs.pages import PAGES, blocks


def picture():
    """The table as a Mermaid diagram; along an arrow without a label, the phase moves on by itself."""
    lines = ["stateDiagram-v2", f"  [*] --> {JobPhase.PENDING}"]
    for phase in [each for each in JobPhase if each is not JobPhase.NEW]:
        lines += [f"  {phase} --> {target}" for target in PROGRESS[phase]]
        arrows = {}
        for action, move in MOVES[phase].items():
            if move.to is not None:
                arrows.setdefault(move.to, []).append(action)
        lines += [f"  {phase} --> {target}: {', '.join(sorted(actions))}" for target, actions in arrows.items()]
    return "\n".join(lines) + "\n"


def test_the_page_of_jobs_shows_the_phases():
    assert blocks(PAGES["docs/reference/jobs.md"], "mermaid") == [picture()]
