"""Objects that were sent to a real server, and are given to ours: what is made of them, and how they are refused."""

from __future__ import annotations

NS = "/api/v1/namespaces/recorded"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
JOB_TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
}
SELECTOR = {"matchLabels": {"a": "b"}}
CREATED = [
    (NS + "/configmaps", {"kind": "ConfigMap", "data": {"a": "b"}}),
    (NS + "/secrets", {"kind": "Secret", "stringData": {"a": "b"}}),
    (NS + "/services", {"kind": "Service", "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    (NS + "/services", {"kind": "Service", "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    (NS + "/services", {"kind": "Service", "spec": {"type": "ExternalName", "externalName": "x.y"}}),
    (NS + "/serviceaccounts", {"kind": "ServiceAccount"}),
    (
        NS + "/persistentvolumeclaims",
        {
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
    (NS + "/resourcequotas", {"kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}),
    (NS + "/limitranges", {"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1000"}}]}}),
    (NS + "/endpoints", {"kind": "Endpoints", "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]}),
    (
        NS + "/events",
        {
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "name": "x", "namespace": "recorded"},
            "reason": "R",
            "message": "m",
            "type": "Normal",
        },
    ),
    (NS + "/podtemplates", {"kind": "PodTemplate", "template": TEMPLATE}),
    (NS + "/replicationcontrollers", {"kind": "ReplicationController", "spec": {"replicas": 0, "template": TEMPLATE}}),
    ("/api/v1/nodes", {"kind": "Node", "metadata": {"name": "recorded-n"}}),
    (
        "/api/v1/persistentvolumes",
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "recorded-pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "storageClassName": "nope",
            },
        },
    ),
    (
        "/apis/apps/v1/namespaces/recorded/deployments",
        {"kind": "Deployment", "spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE}},
    ),
    (
        "/apis/apps/v1/namespaces/recorded/replicasets",
        {"kind": "ReplicaSet", "spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE}},
    ),
    (
        "/apis/apps/v1/namespaces/recorded/statefulsets",
        {
            "kind": "StatefulSet",
            "spec": {
                "replicas": 0,
                "serviceName": "x",
                "selector": SELECTOR,
                "template": TEMPLATE,
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "v"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            },
        },
    ),
    ("/apis/apps/v1/namespaces/recorded/daemonsets", {"kind": "DaemonSet", "spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("/apis/apps/v1/namespaces/recorded/controllerrevisions", {"kind": "ControllerRevision", "revision": 1, "data": {"a": 1}}),
    ("/apis/batch/v1/namespaces/recorded/jobs", {"kind": "Job", "spec": {"suspend": True, "template": JOB_TEMPLATE}}),
    (
        "/apis/batch/v1/namespaces/recorded/cronjobs",
        {
            "kind": "CronJob",
            "spec": {"suspend": True, "schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}},
        },
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/recorded/leases",
        {
            "kind": "Lease",
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"},
        },
    ),
    (
        "/apis/events.k8s.io/v1/namespaces/recorded/events",
        {
            "kind": "Event",
            "regarding": {"kind": "Pod", "name": "x", "namespace": "recorded"},
            "reason": "R",
            "note": "m",
            "type": "Normal",
            "action": "a",
            "reportingController": "c",
            "reportingInstance": "i",
            "eventTime": "2026-01-01T00:00:00.123456Z",
        },
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/recorded/roles",
        {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/recorded/rolebindings",
        {
            "kind": "RoleBinding",
            "roleRef": {"kind": "Role", "name": "x"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "u", "namespace": "y"}],
        },
    ),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"kind": "ClusterRole", "metadata": {"name": "recorded-x"}}),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "recorded-x"},
            "roleRef": {"kind": "ClusterRole", "name": "x", "apiGroup": "rbac.authorization.k8s.io"},
        },
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"kind": "PriorityClass", "metadata": {"name": "recorded-x"}, "value": 5}),
    (
        "/apis/policy/v1/namespaces/recorded/poddisruptionbudgets",
        {"kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": SELECTOR}},
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        {"kind": "StorageClass", "metadata": {"name": "recorded-x"}, "provisioner": "x.y"},
    ),
    ("/apis/storage.k8s.io/v1/csidrivers", {"kind": "CSIDriver", "metadata": {"name": "recorded-x"}, "spec": {}}),
    ("/apis/storage.k8s.io/v1/csinodes", {"kind": "CSINode", "metadata": {"name": "recorded-x"}, "spec": {"drivers": []}}),
    ("/apis/storage.k8s.io/v1/namespaces/recorded/csistoragecapacities", {"kind": "CSIStorageCapacity", "storageClassName": "x"}),
    (
        "/apis/networking.k8s.io/v1/namespaces/recorded/networkpolicies",
        {"kind": "NetworkPolicy", "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/recorded/ingresses",
        {"kind": "Ingress", "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}},
    ),
    (
        "/apis/networking.k8s.io/v1/ingressclasses",
        {"kind": "IngressClass", "metadata": {"name": "recorded-x"}, "spec": {"controller": "x.y/z"}},
    ),
    ("/apis/node.k8s.io/v1/runtimeclasses", {"kind": "RuntimeClass", "metadata": {"name": "recorded-x"}, "handler": "x"}),
    (
        "/apis/autoscaling/v2/namespaces/recorded/horizontalpodautoscalers",
        {
            "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}},
        },
    ),
    (
        "/apis/discovery.k8s.io/v1/namespaces/recorded/endpointslices",
        {"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]},
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "recorded-x"},
            "webhooks": [
                {
                    "name": "a.b.c",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"service": {"name": "x", "namespace": "y"}},
                    "rules": [{"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["zz"]}],
                }
            ],
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        {
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "recorded-x"},
            "webhooks": [
                {
                    "name": "a.b.c",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": "https://x/y"},
                    "rules": [{"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["zz"]}],
                }
            ],
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "recorded-x"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["zz"]}
                    ]
                },
                "validations": [{"expression": "true"}],
            },
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        {
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "recorded-x"},
            "spec": {"policyName": "recorded-x", "validationActions": ["Deny"]},
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        {
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "recorded-x"},
            "spec": {
                "reinvocationPolicy": "Never",
                "matchConstraints": {
                    "resourceRules": [
                        {"operations": ["CREATE"], "apiGroups": ["x.y"], "apiVersions": ["v1"], "resources": ["zz"]}
                    ]
                },
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
            },
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        {"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "recorded-x"}, "spec": {"policyName": "recorded-x"}},
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "xs.recorded.example.org"},
            "spec": {
                "group": "recorded.example.org",
                "scope": "Namespaced",
                "names": {"plural": "xs", "kind": "X"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        },
    ),
    ("/apis/resource.k8s.io/v1/deviceclasses", {"kind": "DeviceClass", "metadata": {"name": "recorded-x"}, "spec": {}}),
]


def pod(**k):
    c = {"name": "c", "image": "busybox"}
    c.update(k.pop("c", {}))
    spec = {"containers": [c]}
    spec.update(k.pop("spec", {}))
    md = {"name": "p1"}
    md.update(k.pop("md", {}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": md, "spec": spec}


PODS = [
    pod(md={"name": "A_b"}),
    pod(md={"name": "a", "labels": {"x y": "z", "k": "-v"}}),
    pod(md={"annotations": {"x y": "1"}}),
    pod(md={"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}),
    pod(md={"finalizers": ["foo"]}),
    pod(md={"finalizers": ["a b"]}),
    pod(spec={"containers": []}),
    pod(spec={"containers": None}),
    pod(c={"name": "A.b"}),
    pod(c={"name": "a.b"}),
    pod(c={"image": ""}),
    pod(c={"image": " x"}),
    pod(spec={"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}),
    pod(
        c={
            "ports": [
                {"containerPort": 0},
                {"containerPort": 99999},
                {"containerPort": 80, "protocol": "X", "name": "TOO_long_name_for_this"},
            ]
        }
    ),
    pod(
        c={
            "env": [
                {"name": ""},
                {"name": "a=b"},
                {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "B", "valueFrom": {}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"key": ""}}},
            ]
        }
    ),
    pod(c={"volumeMounts": [{"name": "nope", "mountPath": "/x"}, {"name": "", "mountPath": ""}]}),
    pod(
        spec={
            "volumes": [
                {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}},
                {"name": "V"},
                {"name": "", "emptyDir": {}},
                {"name": "s", "secret": {}},
            ]
        }
    ),
    pod(c={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
    pod(c={"resources": {"requests": {"foo": "2", "x.y/gpu": "1"}}}),
    pod(c={"resources": {"requests": {"cpu": "-1"}}}),
    pod(c={"resources": {"limits": {"x.y/gpu": "500m"}}}),
    pod(c={"resources": {"requests": {"cpu": "abc"}}}),
    pod(c={"imagePullPolicy": "Foo", "terminationMessagePolicy": "X"}),
    pod(spec={"restartPolicy": "Foo", "dnsPolicy": "Bar"}),
    pod(spec={"nodeSelector": {"a b": "c"}}),
    pod(
        spec={
            "tolerations": [
                {"key": "a b"},
                {"operator": "Foo", "key": "x"},
                {"key": "x", "value": "-", "effect": "X"},
                {"operator": "Exists", "value": "v", "key": "k", "tolerationSeconds": 5},
            ]
        }
    ),
    pod(
        spec={
            "activeDeadlineSeconds": 0,
            "terminationGracePeriodSeconds": -5,
            "hostname": "A",
            "subdomain": "b.c",
            "serviceAccountName": "A",
            "nodeName": "N",
            "priorityClassName": "P_",
        }
    ),
    pod(
        spec={
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "a", "operator": "In"},
                                    {"key": "b", "operator": "Foo", "values": ["x"]},
                                    {"key": "c", "operator": "Gt", "values": ["x", "y"]},
                                ]
                            }
                        ]
                    }
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"a b": "c"}}}],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "x"}}],
                },
            }
        }
    ),
    pod(spec={"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]}),
    pod(spec={"schedulingGates": [{"name": "a b"}, {"name": "x"}, {"name": "x"}]}),
    pod(spec={"schedulingGates": [{"name": "x"}], "nodeName": "n"}),
    pod(c={"livenessProbe": {}}),
    pod(c={"livenessProbe": {"httpGet": {"port": 0}, "exec": {"command": ["x"]}}}),
    pod(c={"readinessProbe": {"tcpSocket": {"port": "A"}, "periodSeconds": -1}}),
    pod(c={"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}}),
    pod(
        spec={
            "initContainers": [
                {"name": "c", "image": "x"},
                {"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}, "restartPolicy": "Foo"},
            ]
        }
    ),
    pod(spec={"ephemeralContainers": [{"name": "e", "image": "x"}]}),
    pod(spec={"foo": 1}),
    pod(spec={"containers": "x"}),
    pod(c={"command": "x"}),
    pod(c={"env": [{"name": "x", "value": 1}]}),
    pod(c={"securityContext": {"runAsUser": -1}}),
    pod(
        spec={"hostNetwork": True, "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}]}
    ),
]
REFUSED = [(NS + "/pods", p) for p in PODS]


def _definition(schema):
    """The creation of a CustomResourceDefinition with this schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ys", "kind": "Y"}
    spec = {"group": "recorded.example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"metadata": {"name": "ys.recorded.example.org"}, "spec": spec}
    return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body


REFUSED += [
    (NS + "/configmaps", {"metadata": {"name": "x"}, "data": {"a b": "1", "..": "2", "..x": "3"}}),
    (NS + "/configmaps", {"metadata": {"name": "x"}, "data": {"a": 1}}),
    (NS + "/configmaps", {"metadata": {"name": "x"}, "data": {"a": "1"}, "binaryData": {"a": "aGk=", "b": "%%"}}),
    (NS + "/configmaps", {"metadata": {}}),
    (NS + "/configmaps", {"metadata": {"name": "x", "namespace": "other"}}),
    (NS + "/configmaps", {"metadata": {"name": "x", "namspace": "other"}, "foo": 1}),
    (NS + "/secrets", {"metadata": {"name": "x"}, "type": "kubernetes.io/tls"}),
    (NS + "/secrets", {"metadata": {"name": "x"}, "data": {"a": "not base64"}}),
    (NS + "/secrets", {"metadata": {"name": "x"}, "type": "kubernetes.io/basic-auth"}),
    (NS + "/services", {"metadata": {"name": "1x"}, "spec": {}}),
    (
        NS + "/services",
        {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 0}, {"port": 80, "name": "a"}, {"port": 80, "name": "a"}]}},
    ),
    (
        NS + "/services",
        {"metadata": {"name": "x"}, "spec": {"type": "Foo", "ports": [{"port": 80, "protocol": "x"}], "sessionAffinity": "y"}},
    ),
    (NS + "/services", {"metadata": {"name": "x"}, "spec": {"type": "ExternalName"}}),
    (NS + "/persistentvolumeclaims", {"metadata": {"name": "x"}, "spec": {}}),
    (
        NS + "/persistentvolumeclaims",
        {"metadata": {"name": "x"}, "spec": {"accessModes": ["X"], "resources": {"requests": {"storage": "0"}}}},
    ),
    ("/api/v1/namespaces", {"metadata": {"name": "A"}}),
    ("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a b", "effect": "X"}, {"key": "k"}]}}),
    (NS + "/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "other"}}),
    ("/apis/apps/v1/namespaces/recorded/deployments", {"metadata": {"name": "x"}, "spec": {"template": TEMPLATE}}),
    (
        "/apis/apps/v1/namespaces/recorded/deployments",
        {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": TEMPLATE}},
    ),
    (
        "/apis/apps/v1/namespaces/recorded/deployments",
        {"metadata": {"name": "x"}, "spec": {"replicas": -1, "selector": {}, "template": {}}},
    ),
    ("/apis/apps/v1/namespaces/recorded/deployments", {"metadata": {"name": "x"}, "spec": {"replicas": 1.5}}),
    (
        "/apis/apps/v1/namespaces/recorded/statefulsets",
        {
            "metadata": {"name": "x"},
            "spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
        },
    ),
    ("/apis/batch/v1/namespaces/recorded/jobs", {"metadata": {"name": "x"}, "spec": {"template": TEMPLATE}}),
    (
        "/apis/batch/v1/namespaces/recorded/jobs",
        {
            "metadata": {"name": "x"},
            "spec": {
                "parallelism": -1,
                "completionMode": "X",
                "template": {"spec": {"containers": [], "restartPolicy": "Never"}},
            },
        },
    ),
    (
        "/apis/batch/v1/namespaces/recorded/cronjobs",
        {
            "metadata": {"name": "x"},
            "spec": {
                "schedule": "x",
                "jobTemplate": {
                    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
                },
            },
        },
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/recorded/leases",
        {"metadata": {"name": "x"}, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/recorded/leases", {"metadata": {"name": "x"}, "spec": {"renewTime": "foo"}}),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/recorded/roles",
        {"metadata": {"name": "a/b"}, "rules": [{}, {"verbs": ["get"]}, {"verbs": ["x"], "nonResourceURLs": ["/x"]}]},
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/recorded/rolebindings",
        {
            "metadata": {"name": "x"},
            "roleRef": {"kind": "X"},
            "subjects": [{"kind": "Foo", "name": "x"}, {"kind": "ServiceAccount"}],
        },
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "recorded-y"}, "value": 2000000001}),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "system-foo"}, "value": 1}),
    (
        "/apis/policy/v1/namespaces/recorded/poddisruptionbudgets",
        {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "maxUnavailable": "x"}},
    ),
    ("/apis/policy/v1/namespaces/recorded/poddisruptionbudgets", {"metadata": {"name": "x"}, "spec": {"minAvailable": "150%"}}),
    ("/apis/networking.k8s.io/v1/namespaces/recorded/ingresses", {"metadata": {"name": "x"}, "spec": {}}),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "metadata": {"name": "recorded-y"},
            "webhooks": [
                {
                    "name": "a",
                    "clientConfig": {},
                    "timeoutSeconds": 99,
                    "rules": [{"operations": ["X", "*"], "apiGroups": [], "apiVersions": ["*", "v1"], "resources": ["*/*", "x"]}],
                    "matchConditions": [{"name": "x", "expression": "foo("}, {"name": "", "expression": "1"}],
                }
            ],
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "metadata": {"name": "recorded-y"},
            "webhooks": [
                {"name": "a.b.c", "sideEffects": "Some", "admissionReviewVersions": ["v9"], "clientConfig": {"url": "http://x?y"}}
            ],
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {
            "metadata": {"name": "recorded-y"},
            "spec": {
                "validations": [{"expression": "1"}, {"expression": "object.x >"}],
                "variables": [{"name": "a", "expression": "variables.b"}],
            },
        },
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "y.recorded.example.org"},
            "spec": {
                "group": "recorded.example.org",
                "scope": "X",
                "names": {"plural": "ys", "kind": "Y"},
                "versions": [{"name": "v1", "served": True, "storage": False}],
            },
        },
    ),
    _definition(
        {
            "properties": {
                "a": {},
                "b": {"type": "array"},
                "c": {"type": "foo"},
                "d": {"type": "string", "pattern": "(", "default": 1},
                "e": {
                    "type": "object",
                    "properties": {"x": {"type": "string"}},
                    "additionalProperties": True,
                },
            }
        }
    ),
    _definition(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "default": "x"},
                        "l": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "string"}},
                    },
                    "x-kubernetes-validations": [
                        {"rule": "self.m > 1"},
                        {"rule": "self.a"},
                        {"rule": "self.a > 'x'"},
                    ],
                }
            },
        }
    ),
    _definition(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}},
                    "x-kubernetes-validations": [
                        {"rule": "self.m > 1"},
                        {"rule": "self.a"},
                        {"rule": "self.a > 'x'", "messageExpression": "1", "reason": "Foo"},
                    ],
                }
            },
        }
    ),
]
WIDGET_SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "ios": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": True, "minimum": 0},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "v": {"type": "integer", "default": 7},
                    "n": {"type": "string", "nullable": True},
                },
            },
        },
        "labels": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "tmpl": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "one": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "imm": {
            "type": "string",
            "maxLength": 10,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
        "lo": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 5", "messageExpression": "'must be more than 5'"}],
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.name) || self.name != 'bad'",
            "message": "name is bad",
            "reason": "FieldValueForbidden",
            "fieldPath": ".name",
        },
        {"rule": "self.size < 9 || self.mode == 'b'"},
    ],
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ws.recorded.example.org"},
    "spec": {
        "group": "recorded.example.org",
        "scope": "Namespaced",
        "names": {"plural": "ws", "kind": "W", "shortNames": ["wz"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
                },
                "selectableFields": [{"jsonPath": ".spec.mode"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
                    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
                    {"name": "First", "type": "string", "jsonPath": '.spec.map[?(@.name=="a")].v'},
                    {"name": "L", "type": "string", "jsonPath": ".spec.list"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": WIDGET_SPEC,
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer", "minimum": 0}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def widget(name="w1", **k):
    md = k.pop("md", {})
    return {"apiVersion": "recorded.example.org/v1", "kind": "W", "metadata": {"name": name, **md}, "spec": k}


WIDGET_SPECS = [
    {},
    {"size": 0},
    {"size": 11},
    {"size": "x"},
    {"size": 1.5},
    {"size": None},
    {"size": 2, "name": "a"},
    {"size": 2, "name": "abcdefg"},
    {"size": 2, "name": "AB"},
    {"size": 2, "mode": "c"},
    {"size": 2, "mode": None},
    {"size": 2, "ios": True},
    {"size": 2, "ios": "5%"},
    {"size": 2, "when": "x"},
    {"size": 2, "when": "2026-01-01T00:00:00Z"},
    {"size": 2, "ratio": 0.3},
    {"size": 2, "ratio": 0},
    {"size": 2, "ratio": 1},
    {"size": 2, "list": []},
    {"size": 2, "list": ["a", "b", "c", "d"]},
    {"size": 2, "list": [1]},
    {"size": 2, "list": "x"},
    {"size": 2, "set": ["a", "a", "b"]},
    {"size": 2, "map": [{"name": "a"}, {"name": "a"}]},
    {"size": 2, "map": [{"v": 1}]},
    {"size": 2, "map": [{"name": "a", "n": None, "v": None, "zz": 1}]},
    {"size": 2, "labels": {"a": "1", "b": "2", "c": "3"}},
    {"size": 2, "labels": {"a": 1}},
    {"size": 2, "free": {"a": {"b": None}}},
    {"size": 2, "tmpl": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "foo": "bar"}, "spec": {"z": 1}}},
    {"size": 2, "tmpl": {}},
    {"size": 2, "one": {}},
    {"size": 2, "one": {"a": "x", "b": "y"}},
    {"size": 2, "one": {"a": "x"}},
    {"size": 2, "name": "bad"},
    {"size": 9},
    {"size": 9, "mode": "b"},
    {"size": 2, "lo": 3},
    {"size": "x", "lo": 3, "name": "bad"},
    {"size": 2, "zzz": 1, "aaa": 2, "map": [{"name": "a", "x": 1}]},
    {"size": 2, "md": {"labels": {"a": 1}}},
    {"size": 2, "md": {"foo": "x"}},
    {"size": 2, "md": {"finalizers": ["foo", "a.b"]}},
]
