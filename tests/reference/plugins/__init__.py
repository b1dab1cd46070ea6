"""The plugins, by name."""

from .binpack import Binpack
from .capacity import Capacity
from .conformance import Conformance
from .drf import Drf
from .gang import Gang
from .nodeorder import NodeOrder
from .overcommit import Overcommit
from .predicates import Predicates
from .priority import Priority
from .proportion import Proportion
from .sla import Sla

PLUGINS = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": Drf,
    "gang": Gang,
    "nodeorder": NodeOrder,
    "overcommit": Overcommit,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "sla": Sla,
}
