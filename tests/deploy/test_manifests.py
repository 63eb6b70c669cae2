"""The checks of `manifests` find what they are for: each breaks one thing in a rendering that has no problem."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest

from deploy.helm import CHART, Helm
from deploy.manifests import Manifest, problems, the


@pytest.fixture
def rendered(helm: Helm) -> list[Manifest]:
    found = helm.render(CHART / "ci" / "single-values.yaml")
    assert problems(found) == []
    return copy.deepcopy(found)


def container(rendered: list[Manifest]) -> Any:
    return the(rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def service(rendered: list[Manifest]) -> Any:
    return the(rendered, "Service", "acme-rowgate")


def policy(rendered: list[Manifest]) -> Any:
    return the(rendered, "NetworkPolicy")["spec"]


Break = Callable[[list[Manifest]], Any]

BREAKS: dict[str, Break] = {
    "not a name": lambda it: service(it)["metadata"].update(name="Acme_"),
    "2 times": lambda it: service(it)["metadata"].update(name="acme-rowgate-internal"),
    "out of range": lambda it: container(it)["ports"][0].update(containerPort=99999),
    "two names for one port": lambda it: container(it)["ports"][0].update(containerPort=9090),
    "livenessProbe asks port admin": lambda it: container(it)["livenessProbe"]["httpGet"].update(port="admin"),
    "set twice": lambda it: container(it).update(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "config is mounted but no volume": lambda it: the(it, "Deployment")["spec"]["template"]["spec"]["volumes"].pop(0),
    "tmp is mounted but no volume, or": lambda it: container(it)["volumeMounts"].pop(),
    "ConfigMap acme-rowgate is not rendered": lambda it: the(it, "ConfigMap")["metadata"].update(name="other"),
    "ServiceAccount acme-rowgate is not": lambda it: the(it, "ServiceAccount")["metadata"].update(name="other"),
    "Service/acme-rowgate: selects 0": lambda it: service(it)["spec"]["selector"].update(tier="none"),
    "Service/acme-rowgate: selects 2": lambda it: service(it)["spec"]["selector"].pop("app.kubernetes.io/component"),
    "sends to port http": lambda it: service(it)["spec"]["ports"][0].update(targetPort="http"),
    "NetworkPolicy/acme-rowgate: selects 0": lambda it: policy(it)["podSelector"]["matchLabels"].update(tier="none"),
    "lets everybody in": lambda it: policy(it)["ingress"][1].update({"from": []}),
    "admits to port admin": lambda it: policy(it)["ingress"][1]["ports"][0].update(port="admin"),
    "reach everybody": lambda it: policy(it)["egress"][0].pop("to"),
    "its own pods": lambda it: the(it, "Deployment")["spec"]["selector"]["matchLabels"].update(tier="none"),
}


@pytest.mark.parametrize("problem", BREAKS)
def test_a_broken_part_is_found(rendered: list[Manifest], problem: str) -> None:
    BREAKS[problem](rendered)
    assert problem in "\n".join(problems(rendered))


def test_a_misspelt_field_is_found(rendered: list[Manifest]) -> None:
    deployment = the(rendered, "Deployment")
    container(rendered)["livenesProbe"] = container(rendered).pop("livenessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)
