"""Where certificates come from: objects for cert-manager hold to its kinds, commands for an own CA make what serves."""

import shutil
from datetime import timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from pyroclast.runtime.fields import parse_duration
from tests.unit.chart import authorities, fields, render

CERTS = render.ROOT / "certs"
SCHEMA = yaml.safe_load((render.ROOT / "tests" / "unit" / "chart" / "cert-manager-v1.yaml").read_text())
OBJECTS = list(yaml.safe_load_all((CERTS / "cert-manager.yaml").read_text()))
VALUES = yaml.safe_load((render.CHART / "values.yaml").read_text())
BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in OBJECTS}
HOST = f"{render.RELEASE}-admission-service.{render.NAMESPACE}.svc"


@pytest.mark.parametrize("document", OBJECTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_cert_manager_objects_match_the_cert_manager_schema(document):
    assert document["apiVersion"] == "cert-manager.io/v1"
    assert fields.wrong(document, document["kind"], SCHEMA) == []
    assert document["metadata"]["namespace"] == render.NAMESPACE
    if document["kind"] == "Issuer":
        assert len(document["spec"]) == 1, "an Issuer is of one type"
        return
    spec = document["spec"]
    assert ("Issuer", spec["issuerRef"]["name"]) in BY_NAME
    assert spec["issuerRef"].get("kind", "Issuer") == "Issuer"
    duration, before = parse_duration(spec["duration"]), parse_duration(spec["renewBefore"])
    assert duration >= timedelta(hours=1)
    assert timedelta(minutes=5) <= before < duration
    assert spec.get("commonName") or spec.get("dnsNames"), "cert-manager wants a name"
    assert (spec["privateKey"]["algorithm"], spec["privateKey"]["size"]) in {("ECDSA", 256), ("ECDSA", 384), ("RSA", 2048)}


@pytest.mark.parametrize(
    ("change", "want"),
    {
        "an unknown field": ({"dnsName": []}, ".spec.dnsName: no field of CertificateSpec"),
        "an algorithm that is none": ({"privateKey": {"algorithm": "EC"}}, ".spec.privateKey.algorithm: no Algorithm"),
        "a usage that is none": ({"usages": ["serverAuth"]}, ".spec.usages[0]: no Usage"),
    }.values(),
)
def test_schema_check_reports_fields_that_cert_manager_would_reject(change, want):
    document = BY_NAME["Certificate", "pyroclast-admission"]
    assert fields.wrong({**document, "spec": {**document["spec"], **change}}, "Certificate", SCHEMA) == [want]


@pytest.mark.parametrize("way", ["cert-manager", "own-ca"])
def test_admission_mounts_only_the_chart_secret_for_external_certificates(helm, way):
    options = ("--values", str(CERTS / f"values-{way}.yaml"))
    documents = render.documents(helm, *options)
    (admission,) = (
        each for each in documents if each["kind"] == "Deployment" and each["metadata"]["name"] == "pyroclast-admission"
    )
    secrets = [
        volume["secret"]["secretName"] for volume in admission["spec"]["template"]["spec"]["volumes"] if "secret" in volume
    ]
    assert secrets == [VALUES["basic"]["admission_secret_name"]]
    (role,) = (each for each in documents if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "pyroclast-admission")
    injects = way != "cert-manager"
    assert any("admissionregistration.k8s.io" in rule["apiGroups"] for rule in role["rules"]) == injects
    arguments = admission["spec"]["template"]["spec"]["containers"][0]["args"]
    assert any(each.startswith("--ca-cert-file=") for each in arguments) == injects


def test_cert_manager_certificate_names_the_admission_service_and_its_secret():
    documents = list(yaml.safe_load_all((CERTS / "cert-manager.yaml").read_text()))
    certificate = next(each for each in documents if each["metadata"]["name"] == "pyroclast-admission")
    assert certificate["spec"]["secretName"] == VALUES["basic"]["admission_secret_name"]
    assert f"{render.RELEASE}-admission-service.{render.NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    values = yaml.safe_load((CERTS / "values-cert-manager.yaml").read_text())
    assert values["webhook"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{render.NAMESPACE}/pyroclast-admission"


def test_documented_openssl_commands_issue_a_valid_certificate_for_the_webhook(tmp_path):
    """The commands as they stand, with a CA made beforehand; the files have the names of the keys of the Secret."""
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        pytest.skip("takes openssl and bash")
    authority = authorities.certificate_of(OBJECTS, "pyroclast-admission", now=authorities.now())["ca.crt"]
    files = authorities.by_own_ca(tmp_path, authority)
    assert sorted(files) == ["ca.crt", "tls.crt", "tls.key"]
    assert (
        f"secret generic {VALUES['basic']['admission_secret_name']}"
        in (render.ROOT / "docs" / "reference" / "certificates.md").read_text()
    )
    leaf = authorities.read(files["tls.crt"])
    leaf.verify_directly_issued_by(authorities.read(authority))
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [HOST]
    assert ExtendedKeyUsageOID.SERVER_AUTH in leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    key = load_pem_private_key(files["tls.key"], None)
    assert key.public_key() == leaf.public_key()
    assert yaml.safe_load((CERTS / "values-own-ca.yaml").read_text()) == {"webhook": {"certificates": "secret"}}
