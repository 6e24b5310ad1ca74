"""The manifests of examples/kubernetes as kubectl and the API server would take them: they parse, files that one
names are there, and the extender's role allows the calls that it makes, and no others. Arguments: their folder, a
file with the calls as JSON: [[verb, resource], ...]. Exit code 77: this Python has no PyYAML."""
import json
import pathlib
import sys

try:
    import yaml
except ImportError:
    print("skipped: this Python has no PyYAML")
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
objects = {}  # (kind, name) -> object
texts = {}
for path in sorted(folder.glob("*.yaml")):
    texts[path.name] = list(yaml.safe_load_all(path.read_text()))
    for document in texts[path.name]:
        assert isinstance(document, dict), f"{path.name}: expected a map, got {document}"
        if "metadata" in document:
            assert document["apiVersion"] and document["kind"], f"{path.name}: {document['metadata']}"
            objects[document["kind"], document["metadata"]["name"]] = document

# kubectl apply -k.
kustomization = texts["kustomization.yaml"][0]
for name in kustomization["resources"]:
    assert name in texts, f"kustomization.yaml: no file {name}"
mounted = {}  # ConfigMap -> its files
for generator in kustomization["configMapGenerator"]:
    files = dict((entry.split("=") * 2)[:2] for entry in generator["files"])
    for name, source in files.items():
        assert source in texts, f"kustomization.yaml: no file {source}"
    mounted[generator["name"]] = files
    assert ("Namespace", generator["namespace"]) in objects, generator

# What the pod's programs read is in its ConfigMap, and each finds the other.
deployment = objects["Deployment", "spillway-scheduler"]
pod = deployment["spec"]["template"]["spec"]
assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
config_maps = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
for container in pod["containers"]:
    for mount in container["volumeMounts"]:
        assert mount["name"] in {volume["name"] for volume in pod["volumes"]}, mount
        if mount["name"] not in config_maps:
            continue
        for word in container["command"]:
            path = word.split("=")[-1]
            if path.startswith(mount["mountPath"] + "/"):
                name = path.rsplit("/", 1)[1]
                assert name in mounted[config_maps[mount["name"]]], f"deployment.yaml: no file {path} in the ConfigMap"
door = texts["extender-pod.yaml"][0]["extender"]["listen"]
assert [each["urlPrefix"] for each in texts["scheduler-pod.yaml"][0]["extenders"]] == [f"http://{door}"]
probes = [word for container in pod["containers"] for word in
          container.get("readinessProbe", {}).get("exec", {}).get("command", [])]
assert f"http://{door}/healthz" in probes, probes
assert texts["extender-pod.yaml"][0]["extender"]["cluster"] in mounted["spillway-scheduler"]

# Roles: each binding's are there, or Kubernetes' own, and the pod's account has the extender's.
account = ("ServiceAccount", pod["serviceAccountName"])
assert account in objects, account
OWN = {"system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"}
allowed = set()
for (kind, name), binding in objects.items():
    if not kind.endswith("RoleBinding"):
        continue
    role = binding["roleRef"]["kind"], binding["roleRef"]["name"]
    assert role in objects or role[1] in OWN, f"{name}: no {role}"
    subjects = [(subject["kind"], subject["name"]) for subject in binding["subjects"]]
    assert all(subject in objects for subject in subjects), f"{name}: {subjects}"
    if role == ("ClusterRole", "spillway-extender") and account in subjects:
        for rule in objects[role]["rules"]:
            assert rule["apiGroups"] == [""], rule
            allowed |= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
made = {tuple(call) for call in json.loads(pathlib.Path(sys.argv[2]).read_text())}
assert made, "no calls"
assert made <= allowed, f"rbac.yaml does not allow the extender's calls {sorted(made - allowed)}"
assert allowed <= made, f"rbac.yaml allows more than the extender calls: {sorted(allowed - made)}"
