"""The command `pyroclast service`: a systemd unit that starts the control plane with the machine and remembers its flags.

For root it is a unit of the system, for everybody else one of the user's own systemd.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyroclast_standalone.directory import CommandError

UNIT: Final = "pyroclast.service"
_ROOT_FOLDER: Final = Path("/etc/systemd/system")
_STOP_SECONDS: Final = 90  # longer than the supervisor waits for its processes


def unit_text(arguments: Sequence[str], *, is_system: bool) -> str:
    """Return the unit that runs `pyroclast up ARGUMENTS`."""
    command = " ".join(_quoted(word) for word in (sys.executable, "-m", __package__, "up", *arguments))
    return f"""[Unit]
Description=Pyroclast: Jobs, queues and gangs on this machine
Documentation=man:systemd.service(5)
After=network.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec={_STOP_SECONDS}

[Install]
WantedBy={"multi-user" if is_system else "default"}.target
"""


def flags(words: Sequence[str], data_dir: Path, paths: Sequence[Path | None]) -> list[str]:
    """Return `words`, the flags of `up`, with absolute `paths`, and with the data directory, whose default varies by user."""
    absolute = {str(path): str(path.resolve()) for path in paths if path is not None}
    kept = []
    for word in words:
        name, is_joined, value = word.partition("=")
        kept.append(f"{name}={absolute[value]}" if is_joined and value in absolute else absolute.get(word, word))
    is_given = any(word.partition("=")[0] == "--data-dir" for word in words)
    return kept if is_given else ["--data-dir", str(data_dir.resolve()), *kept]


def unit_file() -> Path:
    """Return the path of the unit."""
    if os.geteuid() == 0:
        return _ROOT_FOLDER / UNIT
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "systemd/user" / UNIT


def install(arguments: Sequence[str], say: Callable[[str], None]) -> int:
    """Write the unit, start it, and start it with the machine from now on."""
    path = unit_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit_text(arguments, is_system=os.geteuid() == 0))
    say(f"wrote {path}: pyroclast up {' '.join(arguments)}")
    _systemctl("daemon-reload")
    _systemctl("enable", UNIT)
    _systemctl("restart", UNIT)
    say(f"{UNIT} is started, and starts with the machine; `pyroclast service status` shows it")
    if os.geteuid() != 0:
        say("it stops when you log out: `loginctl enable-linger` keeps it")
    return 0


def uninstall(say: Callable[[str], None]) -> int:
    """Stop and remove the unit. The data directory stays."""
    path = unit_file()
    if not path.exists():
        raise CommandError(f"{path}: no service is installed; `pyroclast service install` installs one")
    _systemctl("disable", "--now", UNIT)
    path.unlink()
    _systemctl("daemon-reload")
    say(f"removed {path}; the data directory stays")
    return 0


def status(say: Callable[[str], None]) -> int:
    """Print the flags of the unit and whether it is active. The exit status is 0 only if it is active."""
    path = unit_file()
    if not path.exists():
        raise CommandError(f"{path}: no service is installed; `pyroclast service install` installs one")
    command = next(line.partition("=")[2] for line in path.read_text().splitlines() if line.startswith("ExecStart="))
    say(f"{path}: {command}")
    state = _systemctl("is-active", UNIT, is_checked=False)
    say(f"state: {state}; its output: journalctl {'' if os.geteuid() == 0 else '--user '}-u {UNIT}")
    return 0 if state == "active" else 3


def _systemctl(*words: str, is_checked: bool = True) -> str:
    program = shutil.which("systemctl")
    if program is None:
        raise CommandError("systemctl: not found; this machine has no systemd: start `pyroclast up --detach` by other means")
    command = [program, *(() if os.geteuid() == 0 else ("--user",)), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - systemctl with constant words
    if is_checked and done.returncode != 0:
        raise CommandError(f"systemctl {' '.join(words)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout.strip() or done.stderr.strip()


def _quoted(word: str) -> str:
    """Return a word of a command line as systemd reads it: with `%` and `$` doubled, and in quotes where it must be."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if not word or any(each in word for each in " \t\"'\\;") else plain
