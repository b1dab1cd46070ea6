"""The real Optuna, whose objectives run in the warm workers of a pool."""

from __future__ import annotations

import optuna

import pyroclast.client as pc


def test_trials_run_in_workers_and_a_failed_one_ends_no_study(client: pc.Client) -> None:
    def loss(x: float) -> float:
        return (x - 2) ** 2 if x != -9.5 else 1 / 0

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.enqueue_trial({"x": -9.5})
    with pc.Pool(workers=2, cpu="100m") as pool:
        study.optimize(
            lambda trial: pool.submit(loss, trial.suggest_float("x", -10, 10)).result(120),
            n_trials=30,
            n_jobs=2,
            catch=ZeroDivisionError,
        )
    states = [trial.state.name for trial in study.trials]
    assert (states.count("COMPLETE"), states.count("FAIL")) == (29, 1)
    assert abs(study.best_params["x"] - 2) < 2
