import pytest

from pyroclast.api.enums import Action, JobPhase
from pyroclast.lifecycle.gang.plan import Keep
from pyroclast.lifecycle.job.phase_transitions import MOVES, PROGRESS, Move, PhaseWork, move

P, A = JobPhase, Action
TARGETED = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)
INTERNAL = (A.SYNC_JOB, A.ENQUEUE_JOB, A.SYNC_QUEUE, A.OPEN_QUEUE, A.CLOSE_QUEUE)
WHOLE = (A.RESTART_JOB, A.ABORT_JOB, A.TERMINATE_JOB, A.COMPLETE_JOB)


def test_every_phase_defines_a_move_for_every_action_and_a_progress_rule():
    assert set(MOVES) == set(JobPhase) == set(PROGRESS)
    assert all(set(row) == set(Action) for row in MOVES.values())


@pytest.mark.parametrize("phase", [P.NEW, P.PENDING, P.RUNNING])
def test_new_pending_or_running_job_enters_the_phase_of_the_action(phase):
    assert move(phase, A.RESTART_JOB) == Move(PhaseWork.RELEASE, Keep.NONE, P.RESTARTING, counts_as_retry=True)
    for action in TARGETED:
        assert move(phase, action) == Move(PhaseWork.RELEASE_PART, Keep.OTHERS, P.RESTARTING, counts_as_retry=True)
    assert move(phase, A.ABORT_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.ABORTING)
    assert move(phase, A.COMPLETE_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.COMPLETING)
    assert move(phase, A.TERMINATE_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.TERMINATING)
    for action in (*INTERNAL, A.RESUME_JOB, "Unheard", ""):
        assert move(phase, action).work is PhaseWork.SYNC


ENDS = {A.ABORT_JOB: P.ABORTING, A.COMPLETE_JOB: P.COMPLETING, A.TERMINATE_JOB: P.TERMINATING}


def test_a_restarting_job_can_be_ended():
    assert move(P.RESTARTING, A.SYNC_JOB).work is PhaseWork.SYNC
    for action in TARGETED:
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE_PART)
    for action, phase in ENDS.items():
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE, Keep.FINISHED, phase)
    for action in (A.RESTART_JOB, A.RESUME_JOB, A.ENQUEUE_JOB, "Unheard"):
        assert move(P.RESTARTING, action) == Move(PhaseWork.RELEASE, Keep.NONE)


@pytest.mark.parametrize("phase", [P.ABORTING, P.COMPLETING])
def test_aborting_or_completing_job_can_switch_to_another_ending_phase(phase):
    for action, end in ENDS.items():
        assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED, None if end is phase else end)


def test_an_aborted_job_can_be_resumed_and_nothing_else():
    for phase in (P.ABORTING, P.ABORTED):
        assert move(phase, A.RESUME_JOB) == Move(PhaseWork.RELEASE, Keep.FINISHED, P.RESTARTING, counts_as_retry=True)
        for action in (*INTERNAL, A.RESTART_JOB, A.ABORT_JOB, *TARGETED, "Unheard"):
            assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED)
    assert {move(P.ABORTED, action).to for action in WHOLE} == {None}


@pytest.mark.parametrize("phase", [P.COMPLETED, P.TERMINATING, P.TERMINATED, P.FAILED])
def test_terminating_or_ended_job_only_releases_its_pods_on_any_action(phase):
    for action in (*Action, "Unheard"):
        assert move(phase, action) == Move(PhaseWork.RELEASE, Keep.FINISHED)
