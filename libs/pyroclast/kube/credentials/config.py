"""Configuration of the connection to the API server, from kubeconfig files or the in-cluster service account."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from pyroclast.kube.credentials.authorization import Anonymous, Credentials, StaticCredentials, TokenFile
from pyroclast.kube.credentials.certificates import NO_PEM, Identity, Pem, load_identity


class NotYaml(ValueError):
    """The file is not YAML; the message names the error and the line."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - a YAML value
    """Return the document in the file. Raises OSError: the file cannot be read; NotYaml: the file is not one YAML document."""
    import yaml  # noqa: PLC0415 - a pod in a cluster reads no YAML file

    content = path.read_bytes()
    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise NotYaml(f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}{where}") from error


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FIELDS: Final[Mapping[str, str]] = {
    "cluster": "certificate-authority certificate-authority-data disable-compression extensions insecure-skip-tls-verify "
    "proxy-url server tls-server-name",
    "context": "cluster extensions namespace user",
    "user": "as as-groups as-uid as-user-extra auth-provider client-certificate client-certificate-data client-key "
    "client-key-data exec extensions password token tokenFile username",
}
"""The fields that are read. Any other field is an error: to ignore it may mean to act with other rights than the user wanted."""

_HEADER_CHARACTERS: Final = "!#$&'*+-.^_`|~"  # besides letters and digits


class ConfigError(Exception):
    """A kubeconfig cannot be used; the text is one line that names the file and the error."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster and one identity.

    Attributes:
        server: the URL of the API server, without a trailing slash.
        authority: the CA that signed the server's certificate; empty for the CAs of the system.
        server_name: the name in the server's certificate, when it differs from the host of `server`.
        insecure: whether the server's certificate is not checked.
        certificate: the client certificate, with its `key`; empty for none.
        credentials: the source of Authorization headers.
        namespace: the default namespace of the context.
        proxy: the URL of an HTTP proxy; empty for none.
        impersonation: the headers that name the user as whom the identity acts (`as` in a kubeconfig); empty for itself.
    """

    server: str
    authority: Pem = NO_PEM
    server_name: str = ""
    insecure: bool = False
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    credentials: Credentials = field(default_factory=Anonymous)
    namespace: str = "default"
    proxy: str = ""
    impersonation: tuple[tuple[str, str], ...] = ()

    @property
    def stamp(self) -> tuple[object, ...]:
        """A value that changes when certificates are replaced on disk, or when the credentials have a new certificate."""
        return (self.authority.stamp, self.certificate.stamp, self.key.stamp, self.credentials.identity)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a new client context with the present certificates; None when `server` is not https.

        Raises ConfigError: a file is missing or invalid.
        """
        if not self.server.startswith("https:"):
            return None
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context = self._verifying_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        given = self.credentials.identity
        if given is not None or self.certificate:
            try:
                identity = given or Identity(self.certificate.read(), self.key.read())
                load_identity(context, identity.certificate, identity.key)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"client certificate for {self.server}: {_why(error)}") from error
        return context

    def _verifying_context(self) -> ssl.SSLContext:
        if not self.authority:
            return ssl.create_default_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=self.authority.read().decode("ascii"))
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise ConfigError(f"certificate authority for {self.server}: {_why(error)}") from error
        return context


def load_config(kubeconfig: str | Sequence[Path] = "", *, master: str = "", context: str = "") -> ClusterConfig:
    """Return the configuration of a kubeconfig file, or of this pod's service account when `kubeconfig` and `master` are empty.

    Several files are merged like kubectl merges them: of entries with the same name, and of current contexts, the first is used.
    `master` is the URL of the API server, which overrides the URL in the file. `context` is by default the current context of the
    file. Raises ConfigError: there is no usable configuration.
    """
    if master:
        _check_url(master, "--master")
    if kubeconfig:
        paths = [Path(kubeconfig).expanduser()] if isinstance(kubeconfig, str) else list(kubeconfig)
        return _from_files([(path, _read(path)) for path in paths], master, context)
    if master:
        return ClusterConfig(master.rstrip("/"))
    return _in_cluster(SERVICE_ACCOUNT, os.environ)


def find_config(
    kubeconfig: str = "",
    *,
    master: str = "",
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    default_server: str = "",
) -> ClusterConfig:
    """Return the configuration that kubectl would use: the given file, the files of KUBECONFIG, the default file, or the pod's
    own account.

    The files of KUBECONFIG are merged; missing files are skipped. `default_server` is used when no configuration is found. Raises
    ConfigError: a kubeconfig is invalid, or no configuration is found and `default_server` is empty.
    """
    if kubeconfig:
        return load_config(kubeconfig, master=master, context=context)
    files = configuration_files(environ=environ)
    if found := [path for path in files if path.is_file()]:
        return load_config(found, master=master, context=context)
    if environ.get("KUBECONFIG"):
        return load_config(str(files[0]), master=master)  # raises an error that names the missing file
    if environ.get("KUBERNETES_SERVICE_HOST") and not master:
        return load_config()
    server = master or environ.get("KUBERNETES_MASTER") or default_server
    if not server:
        raise ConfigError(f"KUBECONFIG is not set, {files[0]} does not exist, and this is not a pod of a cluster")
    return load_config("", master=server)


def configuration_files(kubeconfig: str = "", environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the kubeconfig files that kubectl would read: the given file, the files of KUBECONFIG, or the default file.

    The files may not exist.
    """
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return listed or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]


def _in_cluster(account: Path, environ: Mapping[str, str]) -> ClusterConfig:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("no --kubeconfig is given and this is not a pod of a cluster (KUBERNETES_SERVICE_HOST is not set)")
    token = account / "token"
    if not token.is_file():
        raise ConfigError(f"service account: {token} does not exist; set automountServiceAccountToken or give --kubeconfig")
    namespace = account / "namespace"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=Pem(path=account / "ca.crt"),
        credentials=TokenFile(token),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


_Documents: TypeAlias = Sequence[tuple[Path, Mapping[str, Any]]]


def _from_files(documents: _Documents, master: str, wanted: str) -> ClusterConfig:
    files = _files(documents)
    context_name = wanted or next((str(each["current-context"]) for _, each in documents if each.get("current-context")), "")
    if not context_name:
        raise ConfigError(f"kubeconfig {files}: current-context is not set; `kubectl config use-context NAME` sets it")
    _, context = _named(documents, "contexts", "context", context_name)
    cluster_file, cluster = _named(documents, "clusters", "cluster", str(context.get("cluster") or ""))
    user_name = str(context.get("user") or "")
    no_user: tuple[Path, Mapping[str, Any]] = (cluster_file, {})
    user_file, user = _named(documents, "users", "user", user_name) if user_name else no_user
    server = master or str(cluster.get("server") or "")
    _check_url(server, f"kubeconfig {cluster_file}: the server of cluster {context.get('cluster')}")
    return ClusterConfig(
        server=server.rstrip("/"),
        authority=_pem(cluster, "certificate-authority", cluster_file),
        server_name=str(cluster.get("tls-server-name") or ""),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        certificate=_pem(user, "client-certificate", user_file),
        key=_pem(user, "client-key", user_file),
        credentials=_credentials(user, user_file, [path for path, _ in documents], context_name),
        namespace=str(context.get("namespace") or "default"),
        proxy=str(cluster.get("proxy-url") or ""),
        impersonation=_impersonation(user, f'kubeconfig {user_file}: user "{user_name}"'),
    )


def _impersonation(user: Mapping[str, Any], what: str) -> tuple[tuple[str, str], ...]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`."""
    name, uid, groups = user.get("as") or "", user.get("as-uid") or "", user.get("as-groups") or []
    extra = user.get("as-user-extra") or {}
    if not name and (uid or groups or extra):
        raise ConfigError(f"{what} has as-uid, as-groups or as-user-extra without `as`; name the user to act as")
    if not isinstance(name, str) or not isinstance(uid, str):
        raise ConfigError(f"{what}: as and as-uid must be texts")
    if not _are_texts(groups):
        raise ConfigError(f"{what}: as-groups must be a list of texts")
    if not isinstance(extra, dict) or not all(map(_are_texts, extra.values())):
        raise ConfigError(f"{what}: as-user-extra must be a map of lists of texts")
    more = [
        (f"Impersonate-Extra-{quote(str(key), safe=_HEADER_CHARACTERS)}", each) for key, given in extra.items() for each in given
    ]
    headers = [("Impersonate-User", name), ("Impersonate-Uid", uid), *(("Impersonate-Group", group) for group in groups), *more]
    return tuple((header, value) for header, value in headers if value)


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {_why(error)}") from error
    except NotYaml as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path}: empty, or not a mapping")
    return document


def _named(documents: _Documents, section: str, item: str, name: str) -> tuple[Path, Mapping[str, Any]]:
    """Return the first cluster, user or context of that name, and the file that contains it."""
    for path, document in documents:
        for entry in document.get(section) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                value = entry.get(item) or {}
                if not isinstance(value, dict):
                    raise _no_entry(path, section, name)
                if unknown := [str(field) for field in value if field not in _FIELDS[item].split()]:
                    told = f'{item} "{name}" has the field {unknown[0]}, which this program does not support'
                    raise ConfigError(f"kubeconfig {path}: {told}; it supports {', '.join(_FIELDS[item].split())}")
                return path, value
    raise _no_entry(_files(documents), section, name)


def _no_entry(where: object, section: str, name: str) -> ConfigError:
    return ConfigError(f'kubeconfig {where}: {section} has no usable entry "{name}"')


def _files(documents: _Documents) -> str:
    return os.pathsep.join(str(path) for path, _ in documents)


def _pem(section: Mapping[str, Any], name: str, path: Path) -> Pem:
    """Return the PEM text of `NAME-data` (base64), or of the file `NAME`, whose path is relative to the kubeconfig."""
    if data := section.get(f"{name}-data"):
        try:
            return Pem(data=base64.b64decode(str(data), validate=False))
        except binascii.Error as error:
            raise ConfigError(f"kubeconfig {path}: {name}-data is not base64") from error
    if file := section.get(name):
        return Pem(path=path.parent / str(file))
    return NO_PEM


def _credentials(user: Mapping[str, Any], path: Path, files: Sequence[Path], context: str) -> Credentials:
    if file := user.get("tokenFile"):
        return TokenFile(path.parent / str(file))
    if token := user.get("token"):
        return StaticCredentials.token(str(token))
    if "username" in user and "password" in user:
        return StaticCredentials.password(str(user["username"]), str(user["password"]))
    if "exec" in user or "auth-provider" in user:
        try:
            from pyroclast.kube.credentials.cloud import CloudCredentials  # noqa: PLC0415 - 0.5 s and 70 MB that few need
        except ModuleNotFoundError as error:
            way = "a program (exec)" if "exec" in user else "a provider (auth-provider)"
            told = f"{path} takes its credentials from {way}, which needs {error.name}: pip install 'pyroclast-api[cloud]'"
            raise ConfigError(told) from None
        return CloudCredentials(path, context, files=files)
    return Anonymous()


def _check_url(url: str, what: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f'{what} is "{url}", which is not a URL such as https://10.0.0.1:6443')


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return "not a usable PEM certificate or key"
    return f"{error.filename or ''}: {error.strerror}".removeprefix(": ")
