"""The settings of the nodes service."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from pyroclast.resources import quantity
from pyroclast.runtime.durations import Duration
from pyroclast.runtime.fields import Names
from pyroclast.runtime.settings import ServiceSettings

_PAIR = re.compile(r"[^=\s]+=[^=]*")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*)?")


class NodesSettings(ServiceSettings):
    """The number and resources of the nodes, and how they run pods."""

    nodes: int = Field(4, ge=0, le=5000, description="how many nodes to register")
    name_prefix: str = Field("node-", description="prefix of node names; a number from 0 follows")
    cpu: str = Field("8", description="cpu of each node")
    memory: str = Field("16Gi", description="memory of each node")
    pods: int = Field(110, ge=1, description="most pods of each node")
    resource: Names = Field((), description="further resource of each node, such as nvidia.com/gpu=8; may be repeated")
    label: Names = Field((), description="label of each node, such as zone=a; may be repeated")
    mode: Literal["simulated", "process"] = Field(
        "simulated",
        description="simulated: containers only simulate their commands; process: containers run as processes of this machine",
    )
    data_dir: str = Field("", description="directory for the state of containers; required with --mode=process")
    pod_log: str = Field("", description="file with a line of JSON for each start and end of a pod")
    node_ip: str = Field("127.0.0.1", description="address at which the API server reaches the nodes, for logs")
    kubelet_port: int = Field(0, ge=0, le=65535, description="port of --node-ip, for logs; 0: any free port")
    pod_network: str = Field(
        "", description="network of pod addresses (default 10.128.0.0/9; loopback 127.64.0.0/10 for processes)"
    )
    restart_backoff: Duration = Field(
        timedelta(seconds=10), description="delay before the second restart of a container; doubles with each further restart"
    )
    unknown_command: Duration = Field(timedelta(seconds=1), description="simulated duration of an unknown command")

    @field_validator("cpu", "memory")
    @classmethod
    def _is_quantity(cls, text: str) -> str:
        quantity.parse(text)  # the ValueError of the parser names the text
        return text

    @field_validator("resource", "label")
    @classmethod
    def _are_pairs(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        for pair in pairs:
            if not _PAIR.fullmatch(pair):
                raise ValueError(f'"{pair}" is not of the form name=value')
        return pairs

    @field_validator("resource")
    @classmethod
    def _are_quantities(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        for pair in pairs:
            quantity.parse(pair.partition("=")[2])
        return pairs

    @field_validator("pod_network")
    @classmethod
    def _is_network(cls, text: str) -> str:
        if text and ipaddress.IPv4Network(text).num_addresses < 4:
            raise ValueError(f'"{text}" has no room for pods')
        return text

    @field_validator("name_prefix")
    @classmethod
    def _is_prefix(cls, text: str) -> str:
        if not _PREFIX.fullmatch(text):
            raise ValueError(f'"{text}" cannot begin the name of a node: lower-case letters, digits, "-" and "."')
        return text

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.mode == "process" and not self.data_dir:
            raise ValueError("--mode=process needs --data-dir, a folder for the state of its containers")
        return self

    @property
    def network(self) -> str:
        """The network of pod addresses. For processes it is a network in which every address is this machine."""
        return self.pod_network or ("127.64.0.0/10" if self.mode == "process" else "10.128.0.0/9")

    @property
    def names(self) -> list[str]:
        """The names of the nodes to register."""
        return [f"{self.name_prefix}{number}" for number in range(self.nodes)]

    @property
    def resources(self) -> dict[str, str]:
        """The resources of each node."""
        fixed = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "100Gi"}
        return fixed | _mapping(self.resource)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of each node."""
        return _mapping(self.label)


def _mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
