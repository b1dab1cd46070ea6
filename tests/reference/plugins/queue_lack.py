"""What queues lack below what they deserve: reclaim must lower it."""

from fractions import Fraction

from tests.reference.amounts import EPSILON, minus, plus


def lowered(session, gone, placed, deserved, allocated, counts) -> bool:
    """Whether the queues in `deserved` lack less since `gone` are evicted and `placed` have room.

    `allocated`: returns what a queue has now. `counts`: whether a pod counts in a queue.
    """
    change = Fraction(0)
    for name, amounts in deserved.items():
        after = allocated(name)
        before = minus(
            plus(after, *(task.request for task in gone if counts(task, name))),
            plus(*(task.request for task in placed if counts(task, name))),
        )
        for key, amount in amounts.items():
            total, own = session.total.get(key, 0), [task.request.get(key, 0) for task in session.tasks if counts(task, name)]
            if key == "pods" or total <= 0 or amount < EPSILON or min(filter(None, own), default=amount + 1) > amount:
                continue
            change += Fraction(max(amount - after.get(key, 0), 0) - max(amount - before.get(key, 0), 0)) / Fraction(total)
    if change and abs(change) < Fraction(1, 10**7):  # floating numbers may see it otherwise
        session.is_doubtful = True
    return change < 0
