"""lightkube, blocking and asynchronous: one script of what both must do."""

import asyncio
import threading

from checks import check, refused, run, widget_definition
from lightkube import ApiError, AsyncClient, Client, codecs
from lightkube.generic_resource import create_namespaced_resource, load_in_cluster_generic_resources
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec, ServicePort, ServiceSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.operators import in_
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Service
from lightkube.types import CascadeType, PatchType

NAMESPACE = "lightkube"
client = Client(namespace=NAMESPACE, field_manager="lightkube")


def status(error):
    return error.status.code


def conflict(code, reason=None):
    return refused(ApiError, code, reason, status)


def config_map(name, labels=None, **data):
    return ConfigMap(
        apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels), data=data
    )


def deployment(name, replicas):
    labels = {"app": name}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="main", image="nginx:1")])
    )
    return Deployment(
        apiVersion="apps/v1",
        kind="Deployment",
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=DeploymentSpec(replicas=replicas, selector=LabelSelector(matchLabels=labels), template=template),
    )


@check
def create_replace_delete():
    client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    made = client.create(config_map("a", key="1"))
    with conflict(409, "already exists"):
        client.create(config_map("a"))
    made.data["key"] = "2"
    assert client.replace(made).data == {"key": "2"}
    with conflict(409, "the object has been modified"):
        client.replace(made)
    client.delete(ConfigMap, "a")
    with conflict(404, 'configmaps "a" not found'):
        client.get(ConfigMap, "a")


@check
def lists_follow_pages():
    for i in range(5):
        client.create(config_map(f"page-{i}", {"n": str(i)}))
    listed = client.list(ConfigMap, chunk_size=2, labels={"n": in_(["0", "2", "4"])})
    assert [item.metadata.name for item in listed] == ["page-0", "page-2", "page-4"]
    assert listed.resourceVersion
    everywhere = client.list(ConfigMap, namespace="*", fields={"metadata.name": "page-1"})
    assert [item.metadata.namespace for item in everywhere] == [NAMESPACE]
    client.deletecollection(ConfigMap)
    assert not [item for item in client.list(ConfigMap) if item.metadata.name.startswith("page")]


@check
def applies():
    assert client.apply(deployment("d", 1)).spec.replicas == 1
    with conflict(409, "conflict"):
        client.apply(deployment("d", 2), field_manager="other")
    applied = client.apply(deployment("d", 2), field_manager="other", force=True)
    assert applied.spec.replicas == 2
    assert {entry.manager for entry in applied.metadata.managedFields} == {"lightkube", "other"}


@check
def patches():
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b"}]}}}}
    patched = client.patch(Deployment, "d", patch, patch_type=PatchType.STRATEGIC)
    assert sorted(c.name for c in patched.spec.template.spec.containers) == ["main", "side"]
    patched = client.patch(Deployment, "d", {"spec": {"replicas": 5}}, patch_type=PatchType.MERGE)
    assert patched.spec.replicas == 5
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    assert client.patch(Deployment, "d", operations, patch_type=PatchType.JSON).metadata.labels == {"a": "b"}
    scaled = client.patch(Deployment.Scale, "d", {"spec": {"replicas": 3}})
    assert scaled.spec.replicas == 3 and client.get(Deployment, "d").spec.replicas == 3
    status_patch = {"status": {"replicas": 3, "observedGeneration": 1}}
    assert client.patch(Deployment.Status, "d", status_patch).status.replicas == 3
    client.delete(Deployment, "d", cascade=CascadeType.BACKGROUND)


@check
def watches():
    listed = client.list(ConfigMap)
    assert all(item.metadata.uid for item in listed)
    start = listed.resourceVersion

    def write():
        client.create(config_map("w", key="1"))
        client.patch(ConfigMap, "w", {"data": {"key": "2"}})
        client.delete(ConfigMap, "w")

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for operation, item in client.watch(ConfigMap, resource_version=start):
        if item.metadata.name == "w":
            seen.append((operation, item.data["key"]))
            if operation == "DELETED":
                break
    writer.join()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


@check
def manifests_and_custom_resources():
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: b}\n---\n"
    for item in codecs.load_all_yaml(manifest):
        assert client.apply(item).data == {"a": "b"}
    definition = CustomResourceDefinition.from_dict(widget_definition("gadgets"))
    made = client.create(definition)
    client.wait(CustomResourceDefinition, made.metadata.name, for_conditions=["Established"])
    load_in_cluster_generic_resources(client)
    Gadget = create_namespaced_resource("clients.example.com", "v1", "Gadget", "gadgets")
    gadget = client.create(Gadget(metadata=ObjectMeta(name="g"), spec={"size": 3}))
    assert gadget.spec == {"size": 3, "colour": "grey"}
    patched = client.patch(Gadget.Status, "g", {"status": {"ready": True}}, patch_type=PatchType.MERGE)
    assert patched.status == {"ready": True}
    with conflict(422, "spec.size"):
        client.patch(Gadget, "g", {"spec": {"size": -1}}, patch_type=PatchType.MERGE)
    client.delete(Gadget, "g")


@check
def the_same_without_blocking():
    async def work():
        asynchronous = AsyncClient(namespace=NAMESPACE, field_manager="lightkube")
        await asyncio.gather(*(asynchronous.create(config_map(f"async-{i}", {"async": "yes"})) for i in range(20)))
        listed = asynchronous.list(ConfigMap, labels={"async": "yes"})
        names = [item.metadata.name async for item in listed]
        assert len(names) == 20, names

        async def removed():
            gone = []
            async for operation, item in asynchronous.watch(ConfigMap, labels={"async": "yes"}):
                if operation == "DELETED":
                    gone.append(item.metadata.name)
                    if len(gone) == 20:
                        return sorted(gone)

        watching = asyncio.create_task(removed())
        await asyncio.gather(*(asynchronous.patch(ConfigMap, name, {"data": {"a": "b"}}) for name in names))
        applied = await asynchronous.apply(config_map("async-applied", key="1"))
        assert applied.metadata.managedFields[0].operation == "Apply"
        await asyncio.gather(*(asynchronous.delete(ConfigMap, name) for name in names))
        assert await asyncio.wait_for(watching, 30) == sorted(names)
        service = Service(
            metadata=ObjectMeta(name="svc"), spec=ServiceSpec(ports=[ServicePort(port=80)], selector={"a": "b"})
        )
        assert (await asynchronous.create(service)).spec.clusterIP
        await asynchronous.close()

    asyncio.run(work())


run()
