"""The real joblib, whose batches are pods."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from joblib import Parallel, delayed, parallel_config

import pyroclast.client as pc
import pyroclast_client.integrations.joblib  # noqa: F401 - registers the backend

Wait = Callable[[Callable[[], object]], None]


def test_the_example_of_the_guide_runs(client: pc.Client, example: Callable[[str], str]) -> None:
    before = {job.uid for job in client.jobs()}
    exec(example("joblib"))
    jobs = [job.object() for job in client.jobs() if job.uid not in before]
    assert sum(task["replicas"] for job in jobs for task in job["spec"]["tasks"]) == 5


def test_a_call_that_fails_ends_the_others(client: pc.Client, wait_until: Wait) -> None:
    before = {job.uid for job in client.jobs()}
    with parallel_config("pyroclast", n_jobs=2), pytest.raises(ZeroDivisionError):
        Parallel()([delayed(time.sleep)(600), delayed(divmod)(1, 0)])
    wait_until(lambda: all(job.status.is_finished for job in client.jobs() if job.uid not in before))


def test_the_number_of_pods_is_checked() -> None:
    with parallel_config("pyroclast", n_jobs=0), pytest.raises(ValueError, match="give 1 or more"):
        Parallel()([delayed(abs)(1)])


def test_a_grid_search_of_scikit_learn_sends_whole_fits_and_no_trees(client: pc.Client) -> None:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV

    before = {job.uid for job in client.jobs()}
    data, classes = make_classification(60, random_state=0)
    forest = RandomForestClassifier(n_estimators=5, n_jobs=2, random_state=0)
    search = GridSearchCV(forest, {"max_depth": [1, 3]}, cv=2, refit=False)
    with parallel_config("pyroclast", n_jobs=4):
        search.fit(data, classes)
    assert search.best_score_ > 0.5
    jobs = [job.object() for job in client.jobs() if job.uid not in before]
    assert sum(task["replicas"] for job in jobs for task in job["spec"]["tasks"]) <= 4  # one for each fit
