"""What a schema of Kubernetes does not see: whether the parts of a rendering refer to each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

Manifest = dict[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def problems(manifests: Sequence[Manifest]) -> list[str]:
    return [
        problem
        for check in (_names, _containers, _volumes, _accounts, _services, _policies, _workloads)
        for problem in check(manifests)
    ]


def of_kind(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def the(manifests: Sequence[Manifest], kind: str, name: str | None = None) -> Manifest:
    (found,) = (it for it in of_kind(manifests, kind) if name is None or it["metadata"]["name"] == name)
    return found


def pods(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Pods and templates of pods, each with what to call it."""
    for manifest in manifests:
        called = f"{manifest['kind']}/{manifest['metadata']['name']}"
        if manifest["kind"] == "Pod":
            yield called, manifest
        elif "template" in manifest.get("spec", {}):
            yield called, manifest["spec"]["template"]


def matches(selector: Manifest, pod: Manifest) -> bool:
    labels = pod["metadata"].get("labels", {})
    return bool(selector) and selector.items() <= labels.items()


def _names(manifests: Sequence[Manifest]) -> Iterator[str]:
    counted = Counter((it["kind"], it["metadata"]["name"]) for it in manifests)
    for (kind, name), count in counted.items():
        if not _LABEL.fullmatch(name):
            yield f"{kind}/{name}: not a name"
        if count > 1:
            yield f"{kind}/{name}: {count} times"


def _containers(manifests: Sequence[Manifest]) -> Iterator[str]:
    for called, pod in pods(manifests):
        for container in pod["spec"]["containers"]:
            ports = container.get("ports", [])
            names = {port["name"] for port in ports}
            if not all(1 <= port["containerPort"] <= 65535 for port in ports):
                yield f"{called}: a port out of range"
            if len({port["containerPort"] for port in ports}) < len(ports):
                yield f"{called}: two names for one port"
            for probe in _PROBES:
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if isinstance(port, str) and port not in names:
                    yield f"{called}: {probe} asks port {port}, which no container has"
            variables = Counter(variable["name"] for variable in container.get("env", []))
            if any(count > 1 for count in variables.values()):
                yield f"{called}: a variable is set twice"


def _volumes(manifests: Sequence[Manifest]) -> Iterator[str]:
    rendered = {it["metadata"]["name"] for it in of_kind(manifests, "ConfigMap")}
    for called, pod in pods(manifests):
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        mounted = {mount["name"] for it in pod["spec"]["containers"] for mount in it.get("volumeMounts", [])}
        for name in mounted ^ volumes.keys():
            yield f"{called}: {name} is mounted but no volume, or the other way round"
        for volume in volumes.values():
            source = volume.get("configMap", {}).get("name")
            if rendered and source is not None and source not in rendered:
                yield f"{called}: the ConfigMap {source} is not rendered"


def _accounts(manifests: Sequence[Manifest]) -> Iterator[str]:
    rendered = {it["metadata"]["name"] for it in of_kind(manifests, "ServiceAccount")}
    for called, pod in pods(manifests):
        account = pod["spec"].get("serviceAccountName")
        if rendered and account is not None and account not in rendered:
            yield f"{called}: the ServiceAccount {account} is not rendered"


def _services(manifests: Sequence[Manifest]) -> Iterator[str]:
    for service in of_kind(manifests, "Service"):
        called = f"Service/{service['metadata']['name']}"
        chosen = [pod for _, pod in pods(manifests) if matches(service["spec"]["selector"], pod)]
        if len(chosen) != 1:
            yield f"{called}: selects {len(chosen)} kinds of pods"
        for port in service["spec"]["ports"]:
            if not all(port["targetPort"] in _port_names(pod) for pod in chosen):
                yield f"{called}: sends to port {port['targetPort']}, which its pods have not"


def _policies(manifests: Sequence[Manifest]) -> Iterator[str]:
    for policy in of_kind(manifests, "NetworkPolicy"):
        called = f"NetworkPolicy/{policy['metadata']['name']}"
        chosen = [pod for _, pod in pods(manifests) if matches(policy["spec"]["podSelector"]["matchLabels"], pod)]
        if len(chosen) != 1:
            yield f"{called}: selects {len(chosen)} kinds of pods"
        for rule in policy["spec"]["ingress"]:
            if rule.get("from", True) in ([], None):
                yield f"{called}: an empty `from` lets everybody in"
            for port in rule["ports"]:
                if not all(port["port"] in _port_names(pod) for pod in chosen):
                    yield f"{called}: admits to port {port['port']}, which its pods have not"
        for rule in policy["spec"]["egress"]:
            if not rule.get("to"):
                yield f"{called}: an egress rule lets the pods reach everybody"


def _workloads(manifests: Sequence[Manifest]) -> Iterator[str]:
    for workload in of_kind(manifests, "Deployment"):
        if not matches(workload["spec"]["selector"]["matchLabels"], workload["spec"]["template"]):
            yield f"Deployment/{workload['metadata']['name']}: does not select its own pods"


def _port_names(pod: Manifest) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", [])}
