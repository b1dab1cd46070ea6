"""Typed records of the objects in informers: small, immutable, not tracked by the garbage collector.

They are separate from the models, because a cache of 100,000 pods only has the fields that are read. Unknown fields are dropped,
and every field has a default, so that all objects of the server can be decoded. To write an object back, patch it or start from
its raw JSON. A resource list stays as it was received: name to quantity, unparsed.
"""

from __future__ import annotations

from pyroclast.api.records.colocation import *
from pyroclast.api.records.core import *
from pyroclast.api.records.devices import *
from pyroclast.api.records.flows import *
from pyroclast.api.records.groups import *
from pyroclast.api.records.hyperjobs import *
from pyroclast.api.records.jobs import *
from pyroclast.api.records.meta import *
from pyroclast.api.records.native_groups import *
from pyroclast.api.records.nodes import *
from pyroclast.api.records.pods import *
from pyroclast.api.records.storage import *
from pyroclast.api.records.topology import *
from pyroclast.api.records.workloads import *
