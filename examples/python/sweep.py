"""A hundred calls of one function. Those that fail do not end the others, and can be repeated."""

import pyroclast.client as pc


@pc.task(cpu="100m")
def loss(rate: float) -> float:
    return (rate - 0.5) ** 2


results = loss.sweep(rate=[number / 100 for number in range(100)]).results()
print("the least loss is", min(each for each in results if isinstance(each, float)))
