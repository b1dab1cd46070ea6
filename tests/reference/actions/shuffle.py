"""Shuffle: what plugins want to go anyway, goes."""

from tests.reference.model import RUNNING


def execute(session):
    running = [task for job in session.jobs.values() for task in job.tasks if task.status == RUNNING]
    for tier in session.tiers_of("victim_tasks"):
        victims = [task for task in running if any(task in ask(running) for ask in tier)]
        if victims:
            mark = len(session.journal)
            for task in victims:
                session.evict(task)
            session.commit(mark)
            return
