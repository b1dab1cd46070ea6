"""One function on four pods that start together or not at all."""

import pyroclast.client as pc


@pc.task(gang=4)
def hello() -> int:
    return pc.rank()


print(hello.run().results())
