"""Values that would make pods fail, or fail quietly, are refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from deploy.helm import CHART, Helm, Refused

Render = Callable[..., Any]
CONFIG = yaml.safe_load((CHART / "ci" / "single-values.yaml").read_text())["config"]


def config(**gateway: Any) -> str:
    """The smallest configuration with other settings of the gateway."""
    tree = yaml.safe_load(CONFIG)
    tree["gateway"] |= gateway
    return yaml.safe_dump({**tree, "gateway": {k: v for k, v in tree["gateway"].items() if v is not None}})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"config": ""}, "There is no configuration"),
        ({"existingConfigMap": "mine"}, "config and existingConfigMap are both set"),
        ({"config": "- version: 1"}, "not YAML with keys at its top"),
        ({"config": "version: [1"}, "not YAML with keys at its top"),
        ({"config": config(internal_listen=None)}, "gateway.internal_listen is 127.0.0.1:9090"),
        ({"config": config(internal_listen="127.0.0.1:9090")}, 'write internal_listen: "0.0.0.0:9090"'),
        ({"config": config(internal_listen="0.0.0.0:9091")}, "gateway.internal_listen is 0.0.0.0:9091"),
        ({"config": config(listen="127.0.0.1:8080")}, "gateway.listen is 127.0.0.1:8080"),
        ({"ports": {"public": 8443}}, "gateway.listen is 0.0.0.0:8080"),
        ({"config": config(context={"signing_key": {"file": "/run/secrets/rowgate/k"}})}, "secrets.existingSecret"),
        ({"terminationGracePeriodSeconds": 29}, "set at least 30"),
        ({"config": config(shutdown={"delay": "10s", "timeout": "1m"})}, "(10 s and 60 s)"),
        ({"config": config(shutdown={"timeout": "1h"})}, "set at least 3605"),
        ({"config": config(shutdown={"delay": "1500ms", "timeout": "54s"})}, "set at least 61"),
        ({"replicaCount": 2}, "plugins that know the key of one refuse the calls of the others"),
        (
            {"replicaCount": 2, "config": config(context={"lifetime": "60s"})},
            "Set gateway.context.signing_key in config",
        ),
        ({"replicaCount": 2, "config": config(context={"signing_key": None})}, "Set gateway.context.signing_key"),
        ({"sharedSigningKey": True}, "sharedSigningKey is for existingConfigMap"),
        ({"replicaCount": 2, "sharedSigningKey": True}, "sharedSigningKey is for existingConfigMap"),
        ({"config": "", "existingConfigMap": "mine", "replicaCount": 2}, "then set sharedSigningKey: true"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_reason(single: Render, values: Any, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        single(**values)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"replicas": 2}, "replicas"),
        ({"replicaCount": "2"}, "/replicaCount"),
        ({"replicaCount": -1}, "/replicaCount"),
        ({"config": {"version": 1}}, "/config"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"image": {"repository": "rowgate@sha256:0"}}, "/image/repository"),
        ({"service": {"type": "ExternalName"}}, "/service/type"),
        ({"service": {"port": 0}}, "/service/port"),
        ({"ports": {"internal": 65536}}, "/ports/internal"),
        ({"networkPolicy": {"internalFrom": [{}]}}, "/networkPolicy/internalFrom/0"),
        ({"networkPolicy": {"internalFrom": [{"podselector": {}}]}}, "/networkPolicy/internalFrom/0"),
        ({"networkPolicy": {"egress": [{"ports": [{"port": 9000}]}]}}, "/networkPolicy/egress/0"),
        ({"networkPolicy": {"egress": [{"to": [], "ports": [{"port": 9000}]}]}}, "/networkPolicy/egress/0/to"),
        ({"secrets": {"data": {"key": "value"}}}, "/secrets"),
        ({"fullnameOverride": "Not_A_Name"}, "/fullnameOverride"),
        ({"podAnnotations": {"example.com/n": 1}}, "/podAnnotations"),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_at_its_place(single: Render, values: Any, place: str) -> None:
    with pytest.raises(Refused) as refused:
        single(**values)
    assert "don't meet the specifications of the schema" in str(refused.value)
    assert place in str(refused.value)


def test_an_older_cluster_is_refused(helm: Helm) -> None:
    with pytest.raises(Refused, match="incompatible with Kubernetes"):
        helm.render(CHART / "ci" / "single-values.yaml", options=["--kube-version", "1.26.0"])


@pytest.mark.parametrize(
    "values",
    [
        {"config": config(internal_listen="${LISTEN_HOST}:9090")},
        {"config": config(internal_listen="[::]:9090")},
        {"config": config(shutdown={"delay": "${DRAIN}"})},
        {"replicaCount": 2, "config": config(context={"signing_key": {"env": "CONTEXT_KEY"}})},
        {"replicaCount": 0},
        {"config": CONFIG + "# a comment may name /run/secrets/rowgate/context.jwk\n"},
        {"terminationGracePeriodSeconds": 30},
        {"global": {"anything": 1}},
    ],
)
def test_what_only_the_gateway_can_judge_is_left_to_it(single: Render, values: Any) -> None:
    assert single(**values)
