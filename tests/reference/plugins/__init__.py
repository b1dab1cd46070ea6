"""The plugins, by name."""

from .binpack import Binpack
from .capacity import Capacity
from .drf import Drf
from .gang import Gang
from .network_topology_aware import NetworkTopologyAware
from .nodegroup import NodeGroup
from .nodeorder import NodeOrder
from .overcommit import Overcommit
from .predicates import Predicates
from .priority import Priority
from .proportion import Proportion
from .protections import Cdp, Conformance, Pdb
from .rescheduling import Rescheduling
from .reservation import Reservation
from .resource_strategy_fit import ResourceStrategyFit
from .resourcequota import ResourceQuota
from .sla import Sla
from .task_topology import TaskTopology
from .tdm import Tdm
from .usage import Usage

PLUGINS = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": Drf,
    "gang": Gang,
    "nodeorder": NodeOrder,
    "overcommit": Overcommit,
    "predicates": Predicates,
    "network-topology-aware": NetworkTopologyAware,
    "nodegroup": NodeGroup,
    "priority": Priority,
    "proportion": Proportion,
    "resource-strategy-fit": ResourceStrategyFit,
    "sla": Sla,
    "tdm": Tdm,
    "cdp": Cdp,
    "pdb": Pdb,
    "rescheduling": Rescheduling,
    "reservation": Reservation,
    "resourcequota": ResourceQuota,
    "task-topology": TaskTopology,
    "usage": Usage,
}
