"""A flow with a loop, a retry and a choice. No driver stays: the cluster runs it."""

import pyroclast.client as pc


@pc.task(retries=2)
def extract(day: str) -> list[int]:
    return [int(part) for part in day.split("-")]


@pc.task
def clean(part: int) -> int:
    return part * 2


@pc.task
def train(parts: list[int]) -> int:
    return sum(parts)


@pc.task
def alarm() -> None:
    print("call somebody")


@pc.flow
def nightly(day: str) -> int:
    parts = clean.each(extract(day), count=3, parallel=3)
    with pc.when(parts):
        fit = train(parts)
    with pc.otherwise():
        alarm()
    return fit


if __name__ == "__main__":
    print(nightly.run("2026-11-24").result())
