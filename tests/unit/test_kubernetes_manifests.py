"""The manifests of Kubernetes in ops/kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from subscriber import __version__
from subscriber.cli.run import END_SECONDS
from subscriber.cli.run import command as run

FOLDER: Final = Path(__file__).resolve().parents[2] / "ops" / "kubernetes"
POD_FILES: Final = ("statefulset.yml", "deployment.yml")
VERSIONS: Final = ("1.29", "1.37")
"""The oldest has volumes that only one pod may mount (ReadWriteOncePod)."""


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def manifest(name: str) -> dict[str, Any]:
    """The object of a file that has pods, or that selects them."""
    (found,) = (one for one in objects(name) if one["kind"] in ("Deployment", "StatefulSet", "PodMonitor"))
    return found


def container(name: str) -> dict[str, Any]:
    (found,) = manifest(name)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_these_are_all_files():
    assert {path.name for path in FOLDER.iterdir()} == {*POD_FILES, "podmonitor.yml"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", POD_FILES)
def test_kubernetes_knows_every_field(name, version):
    for one in objects(name):
        kubernetes_validate.validate(one, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found():
    wrong = manifest("deployment.yml")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_monitor_has_the_fields_of_prometheus_operator():
    """Its kind is not one of Kubernetes itself, so the fields that it uses are written here."""
    monitor = manifest("podmonitor.yml")
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
    assert monitor.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert monitor["spec"].keys() == {"selector", "jobLabel", "podMetricsEndpoints"}
    (point,) = monitor["spec"]["podMetricsEndpoints"]
    assert point.keys() == {"port", "path", "interval", "authorization"}
    assert point["path"] == "/metrics"
    assert point["authorization"].keys() == {"type", "credentials"}
    assert point["authorization"]["credentials"].keys() == {"name", "key"}


def test_the_job_of_the_monitor_is_the_one_of_the_alerts():
    """SubscriberDown and SubscriberRestarts ask for job="subscriber"; jobLabel names a label."""
    label = manifest("podmonitor.yml")["spec"]["jobLabel"]
    jobs = {manifest(name)["spec"]["template"]["metadata"]["labels"][label] for name in POD_FILES}
    assert jobs == {"subscriber"}


@pytest.mark.parametrize("name", POD_FILES)
def test_what_a_manifest_names_is_there(name):
    """The service account, the service, ports, volumes, and the key of the secret."""
    spec = manifest(name)["spec"]
    pod = spec["template"]["spec"]
    there = {(one["kind"], one["metadata"]["name"]) for one in objects(name)}
    named = {("ServiceAccount", pod.get("serviceAccountName")), ("Service", spec.get("serviceName"))}
    assert {(kind, of) for kind, of in named if of is not None} <= there
    (port,) = container(name)["ports"]
    for one in objects(name):
        if one["kind"] == "Service":
            assert one["spec"]["selector"] == spec["selector"]["matchLabels"]
            assert [(each["port"], each["targetPort"]) for each in one["spec"]["ports"]] == [
                (port["containerPort"], port["name"])
            ]
    command = container(name)["command"]
    token = Path(command[command.index("--http-token-file") + 1])
    (mount,) = (one for one in container(name)["volumeMounts"] if one["mountPath"] == str(token.parent))
    (volume,) = (one for one in pod["volumes"] if one["name"] == mount["name"])
    (point,) = manifest("podmonitor.yml")["spec"]["podMetricsEndpoints"]
    assert point["authorization"]["credentials"] == {"name": volume["secret"]["secretName"], "key": token.name}


@pytest.mark.parametrize("name", POD_FILES)
def test_probes_ask_what_asks_no_server(name):
    probes = {kind: container(name)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    (port,) = container(name)["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert f"0.0.0.0:{port['containerPort']}" in container(name)["command"]


@pytest.mark.parametrize("name", POD_FILES)
def test_pods_have_no_privileges_and_no_secret_in_the_manifest(name):
    pod = manifest(name)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    security = container(name)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert f":{__version__}" in container(name)["image"]
    assert pod["terminationGracePeriodSeconds"] > END_SECONDS
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in manifest(name)["spec"].get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in container(name)["volumeMounts"]} == volumes
    assert "PASSWORD=" not in (FOLDER / name).read_text()


@pytest.mark.parametrize("name", POD_FILES)
def test_labels_and_selectors_of_a_manifest_and_of_the_monitor_are_the_same(name):
    spec = manifest(name)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    monitor = manifest("podmonitor.yml")["spec"]
    assert monitor["selector"]["matchLabels"] == labels
    assert [point["port"] for point in monitor["podMetricsEndpoints"]] == [container(name)["ports"][0]["name"]]


def test_two_pods_are_on_two_nodes_with_a_journal_that_both_reach():
    spec = manifest("deployment.yml")["spec"]
    assert spec["replicas"] == 2
    assert "--standby" in container("deployment.yml")["command"]
    environment = {one["name"]: one["value"] for one in container("deployment.yml")["env"]}
    assert "://" in environment["SUBSCRIBER_JOURNAL"]
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spec["strategy"] == {"type": "Recreate"}, "an old run must end before a new version alters the catalog"


def test_every_file_starts_run_with_the_verb_s_name_and_known_options_for_a_standby():
    known = {option for parameter in run.params for option in parameter.opts}
    assert {"--standby", "--log-format"} <= known
    for name in POD_FILES:
        assert container(name)["command"][:2] == ["subscriber", "run"]
