"""What the chart renders: valid, coherent, hardened, and a configuration that the gateway takes."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from joserfc.jwk import OKPKey

from deploy.helm import CHART, Helm
from deploy.manifests import Manifest, matches, pods, problems, the
from process.gateway import environment, rowgate
from rowgate import __version__

Render = Callable[..., list[Manifest]]
CI = CHART / "ci"
SECRETS = "/run/secrets/rowgate"


@pytest.fixture
def rendered(helm: Helm, values: Path) -> list[Manifest]:
    return helm.render(values)


def test_the_chart_has_no_finding_of_the_linter(helm: Helm, values: Path) -> None:
    done = helm.run("lint", "--strict", CHART, "--values", values)
    assert (done.code, "[WARNING]" in done.stdout) == (0, False), done.stdout + done.stderr


def test_the_chart_is_of_the_version_of_the_gateway() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_a_package_of_the_chart_has_no_values_of_tests(helm: Helm, tmp_path: Path) -> None:
    assert helm.run("package", CHART, "--destination", tmp_path).code == 0
    (package,) = tmp_path.glob("rowgate-*.tgz")
    shown = helm.run("template", "acme", package, "--values", CI / "single-values.yaml")
    assert (shown.code, "kind: Deployment" in shown.stdout) == (0, True)
    with tarfile.open(package) as archive:
        assert not [name for name in archive.getnames() if "/ci/" in name]


# The oldest version that Chart.yaml names, and the newest that the schemas know.
@pytest.mark.parametrize("version", ["1.27", kubernetes_validate.latest_version()])
def test_kubernetes_takes_what_is_rendered(rendered: list[Manifest], version: str) -> None:
    for manifest in rendered:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_parts_of_a_rendering_fit_together(rendered: list[Manifest]) -> None:
    assert problems(rendered) == []


@pytest.mark.parametrize("release", ["acme.eu", "rowgate", "a" * 53])
def test_names_stay_valid_for_every_release(helm: Helm, release: str) -> None:
    assert problems(helm.render(CI / "single-values.yaml", release=release)) == []


@pytest.mark.parametrize("name", ["single", "replicas"])
async def test_the_gateway_takes_the_configuration_that_is_mounted(helm: Helm, name: str, tmp_path: Path) -> None:
    given = values_of(name)
    mounted = the(helm.render(CI / f"{name}-values.yaml"), "ConfigMap")["data"]["config.yaml"]
    assert mounted == given["config"]
    await assert_taken(
        mounted, tmp_path, {it["name"]: it["value"] for it in given.get("extraEnv", ()) if "value" in it}
    )


async def test_the_readme_shows_a_configuration_and_values_that_work_together(helm: Helm, tmp_path: Path) -> None:
    config, values = re.findall(r"^```yaml\n(.*?)^```", (CHART / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    rendered = helm.render(values={**yaml.safe_load(values), "config": config}, release="rowgate")
    assert problems(rendered) == []
    assert the(rendered, "Deployment")["metadata"]["name"] == "rowgate"
    await assert_taken(the(rendered, "ConfigMap")["data"]["config.yaml"], tmp_path, {})


async def assert_taken(config: str, directory: Path, variables: dict[str, str]) -> None:
    """By the gateway, without a warning, with the secrets that it names."""
    key = OKPKey.generate_key("Ed25519")
    (directory / "context.jwk").write_text(json.dumps(key.as_dict(private=True)))
    (directory / "context.pem").write_bytes(key.as_pem(private=True))
    (directory / "config.yaml").write_text(config.replace(SECRETS, str(directory)))
    done = await rowgate("config", "validate", "--strict", "config.yaml", cwd=directory, env=environment() | variables)
    assert (done.code, done.stderr) == (0, "config.yaml: valid\n")


def test_a_configmap_of_ones_own_is_mounted_and_none_is_made(helm: Helm) -> None:
    rendered = helm.render(CI / "existing-values.yaml")
    assert not [it for it in rendered if it["kind"] in ("ConfigMap", "ServiceAccount", "NetworkPolicy")]
    pod = gateway_of(rendered)
    assert pod["spec"]["volumes"][0] == {"name": "config", "configMap": {"name": "gateway-config"}}
    assert pod["spec"]["serviceAccountName"] == "gateway"
    assert not pod["metadata"].get("annotations")


def test_every_container_runs_without_rights(rendered: list[Manifest]) -> None:
    found = [*pods(rendered)]
    assert len(found) == 2
    for _, pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_probes_ask_the_internal_listener_and_readiness_is_not_liveness(rendered: list[Manifest]) -> None:
    container = gateway_of(rendered)["spec"]["containers"][0]
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    alive = {"path": "/healthz", "port": "internal"}
    assert asked == {"startup": alive, "liveness": alive, "readiness": {"path": "/readyz", "port": "internal"}}


def test_clients_reach_the_public_port_only(rendered: list[Manifest]) -> None:
    targets = {
        it["metadata"]["name"]: [port["targetPort"] for port in it["spec"]["ports"]]
        for it in rendered
        if it["kind"] == "Service"
    }
    (name,) = (name for name in targets if not name.endswith("-internal"))
    assert targets == {name: ["public"], f"{name}-internal": ["internal"]}
    assert the(rendered, "Service", f"{name}-internal")["spec"]["type"] == "ClusterIP"


def test_plugins_get_the_keys_of_a_gateway_that_waits_for_them(rendered: list[Manifest]) -> None:
    name = the(rendered, "Deployment")["metadata"]["name"]
    assert the(rendered, "Service", f"{name}-internal")["spec"]["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in the(rendered, "Service", name)["spec"]


def test_the_internal_port_is_closed_by_default(single: Render) -> None:
    rendered = single()
    rules = the(rendered, "NetworkPolicy")["spec"]["ingress"]
    assert [rule for rule in rules if "from" not in rule] == [{"ports": [{"port": "public", "protocol": "TCP"}]}]
    (internal,) = (rule for rule in rules if rule["ports"][0]["port"] == "internal")
    (peer,) = internal["from"]
    assert matches(peer["podSelector"]["matchLabels"], the(rendered, "Pod"))
    assert not matches(peer["podSelector"]["matchLabels"], gateway_of(rendered))


def test_the_internal_port_is_open_to_those_who_are_named(single: Render) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    rules = the(single(networkPolicy={"internalFrom": [peer]}), "NetworkPolicy")["spec"]["ingress"]
    assert peer in next(rule["from"] for rule in rules if rule["ports"][0]["port"] == "internal")
    assert peer not in next(rule.get("from", []) for rule in rules if rule["ports"][0]["port"] == "public")


def test_the_gateway_reaches_names_https_and_named_plugins_and_nothing_else(single: Render) -> None:
    plugin = {"to": [{"podSelector": {"matchLabels": {"app": "notes"}}}], "ports": [{"port": 9000}]}
    rules = the(single(), "NetworkPolicy")["spec"]["egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in rules] == [[53, 53], [443], [9000]]
    assert rules[-1] == plugin
    for peer in rules[1]["to"]:
        private = "169.254.0.0/16" if peer["ipBlock"]["cidr"] == "0.0.0.0/0" else "fe80::/10"
        assert private in peer["ipBlock"]["except"]


def test_no_secret_stands_in_what_is_rendered(rendered: list[Manifest]) -> None:
    assert not [it for it in rendered if it["kind"] == "Secret"]


def test_secrets_are_files_that_only_the_group_of_the_gateway_reads(helm: Helm) -> None:
    pod = gateway_of(helm.render(CI / "replicas-values.yaml"))["spec"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
    assert volume["secret"] == {"secretName": "gateway-secrets", "defaultMode": 0o440}
    assert pod["securityContext"]["fsGroup"] == 65532
    assert {"name": "secrets", "mountPath": SECRETS, "readOnly": True} in pod["containers"][0]["volumeMounts"]


def test_a_changed_configuration_restarts_the_pods(single: Render) -> None:
    text = values_of("single")["config"]
    sums = {
        gateway_of(single(config=config))["metadata"]["annotations"]["checksum/config"]
        for config in (text, text.replace("search_notes", "find_notes"))
    }
    assert len(sums) == 2


def test_gateways_with_keys_of_their_own_never_run_side_by_side(helm: Helm, single: Render) -> None:
    assert the(single(), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    shared = the(helm.render(CI / "replicas-values.yaml"), "Deployment")["spec"]["strategy"]
    assert shared == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def test_a_digest_goes_before_a_tag(single: Render) -> None:
    digest = "sha256:" + "a" * 64
    images = [
        gateway_of(single(image=image))["spec"]["containers"][0]["image"]
        for image in ({}, {"tag": "edge"}, {"tag": "edge", "digest": digest})
    ]
    assert images == [f"rowgate:{__version__}", "rowgate:edge", f"rowgate@{digest}"]


def test_the_notes_name_what_is_still_to_do(helm: Helm) -> None:
    def notes(name: str) -> str:
        file = CI / f"{name}-values.yaml"
        return helm.run("install", "acme", CHART, "--dry-run=client", "--values", file).stdout.partition("NOTES:")[2]

    single, replicas, existing = map(notes, ("single", "replicas", "existing"))
    assert "can only run alone" in single
    assert "http://acme-rowgate-internal.default:9090/context/jwks.json" in single
    assert "can only run alone" not in replicas
    assert "NO plugin" in replicas
    assert "each of the 3 replicas counts by itself" in replicas
    assert "counts by itself" not in single + existing
    assert "WARNING: without a NetworkPolicy" in existing


def values_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CI / f"{name}-values.yaml").read_text())
    return found


def gateway_of(rendered: list[Manifest]) -> Manifest:
    found: dict[str, Any] = the(rendered, "Deployment")["spec"]["template"]
    return found
