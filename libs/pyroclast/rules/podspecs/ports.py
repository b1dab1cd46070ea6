"""Rules for the ports of a container."""

from __future__ import annotations

from pyroclast.rules.errors import FieldError, duplicate, invalid, invalid_for, required
from pyroclast.rules.names import port_name
from pyroclast.rules.podspecs.choices import check_choice
from pyroclast.rules.podspecs.options import Options
from pyroclast.rules.values import Json, integer, mappings, text

PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE = "must be between 1 and 65535, inclusive"


def check_port_number(number: int, path: str, errors: list[FieldError]) -> None:
    """Check that the number of a port is valid."""
    if not 1 <= number <= 65535:
        errors.append(invalid(path, number, PORT_RANGE))


def check_ports(ports: Json, path: str, errors: list[FieldError], options: Options) -> None:
    """Check the ports of one container at `path`."""
    names: set[str] = set()
    for index, port in mappings(ports):
        where = f"{path}[{index}]"
        if name := text(port.get("name")):
            if problems := port_name(name):
                errors += invalid_for(f"{where}.name", name, problems)
            elif name in names:
                errors.append(duplicate(f"{where}.name", name))
            names.add(name)
        number, on_host = integer(port.get("containerPort")), integer(port.get("hostPort"))
        if number == 0:
            errors.append(required(f"{where}.containerPort"))
        else:
            check_port_number(number, f"{where}.containerPort", errors)
        if on_host:
            check_port_number(on_host, f"{where}.hostPort", errors)
        errors += check_choice(port, "protocol", PROTOCOLS, where, options)


def check_host_port_conflicts(containers: Json, path: str, errors: list[FieldError]) -> None:
    """Check that no two containers use the same port of the host."""
    taken: set[str] = set()
    for number, container in mappings(containers):
        for index, port in mappings(container.get("ports")):
            on_host = integer(port.get("hostPort"))
            if not on_host:
                continue
            use = f"{text(port.get('protocol')) or 'TCP'}/{text(port.get('hostIP'))}/{on_host}"
            if use in taken:
                errors.append(duplicate(f"{path}[{number}].ports[{index}].hostPort", use))
            taken.add(use)
