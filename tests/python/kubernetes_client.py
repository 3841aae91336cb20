"""The official Python client: typed, custom and dynamic APIs, all patches, watches, leader election."""

import threading

from checks import check, eventually, refused, run, widget_definition
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()
custom = client.CustomObjectsApi()
NAMESPACE = "python"
GROUP = ("clients.example.com", "v1")


def config_map(name, labels=None, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def deployment(name, replicas=1, image="nginx:1"):
    labels = {"app": name}
    container = client.V1Container(name="main", image=image, ports=[client.V1ContainerPort(container_port=80)])
    return client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


@check
def version_and_discovery():
    assert int(client.VersionApi().get_code().minor.rstrip("+")) >= 27
    assert "v1" in client.CoreApi().get_api_versions().versions
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    assert {"apps", "rbac.authorization.k8s.io", "coordination.k8s.io"} <= groups, groups
    assert any(r.name == "deployments/scale" for r in apps.get_api_resources().resources)


@check
def namespaces():
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    eventually("active", lambda: core.read_namespace(NAMESPACE).status.phase == "Active")
    with refused(ApiException, 409, "AlreadyExists"):
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))


@check
def create_read_update_delete():
    made = core.create_namespaced_config_map(NAMESPACE, config_map("a", key="1"))
    assert made.metadata.uid and made.metadata.creation_timestamp and made.metadata.managed_fields
    read = core.read_namespaced_config_map("a", NAMESPACE)
    assert read.data == {"key": "1"} and read.metadata.resource_version == made.metadata.resource_version
    read.data["key"] = "2"
    replaced = core.replace_namespaced_config_map("a", NAMESPACE, read)
    assert int(replaced.metadata.resource_version) > int(read.metadata.resource_version)
    with refused(ApiException, 409, "Conflict"):
        core.replace_namespaced_config_map("a", NAMESPACE, read)
    core.delete_namespaced_config_map("a", NAMESPACE)
    with refused(ApiException, 404, "NotFound"):
        core.read_namespaced_config_map("a", NAMESPACE)


@check
def generated_names_and_dry_run():
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="some-"))
    names = {core.create_namespaced_config_map(NAMESPACE, body).metadata.name for _ in range(3)}
    assert len(names) == 3 and all(len(name) == len("some-") + 5 for name in names), names
    core.create_namespaced_config_map(NAMESPACE, config_map("never"), dry_run="All")
    with refused(ApiException, 404):
        core.read_namespaced_config_map("never", NAMESPACE)
    assert core.delete_collection_namespaced_config_map(NAMESPACE).kind


@check
def secrets_are_encoded():
    body = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"password": "hunter2"})
    assert core.create_namespaced_secret(NAMESPACE, body).data == {"password": "aHVudGVyMg=="}
    frozen = client.V1Secret(metadata=client.V1ObjectMeta(name="frozen"), immutable=True)
    core.create_namespaced_secret(NAMESPACE, frozen)
    with refused(ApiException, 422, "field is immutable when `immutable` is set"):
        core.patch_namespaced_secret("frozen", NAMESPACE, {"stringData": {"a": "b"}})


@check
def lists_in_pages_and_by_selector():
    for i in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{i}", {"page": "yes", "odd": str(i % 2)}))
    seen, following, revisions = [], None, set()
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes", limit=3, _continue=following)
        assert len(page.items) <= 3
        seen += [item.metadata.name for item in page.items]
        revisions.add(page.metadata.resource_version)
        following = page.metadata._continue
        if not following:
            break
    assert seen == [f"page-{i}" for i in range(7)], seen
    assert len(revisions) == 1, "all pages are of one revision"
    odd = core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes,odd in (1)")
    assert len(odd.items) == 3
    one = core.list_config_map_for_all_namespaces(field_selector=f"metadata.name=page-2,metadata.namespace={NAMESPACE}")
    assert [item.metadata.name for item in one.items] == ["page-2"]
    with refused(ApiException, 400):
        core.list_namespaced_config_map(NAMESPACE, label_selector="a in (")


@check
def every_kind_of_patch():
    apps.create_namespaced_deployment(NAMESPACE, deployment("d"))
    container = {"name": "side", "image": "busybox"}
    strategic = {"spec": {"template": {"spec": {"containers": [container]}}}}
    patched = apps.patch_namespaced_deployment("d", NAMESPACE, strategic)
    assert sorted(c.name for c in patched.spec.template.spec.containers) == ["main", "side"]
    assert patched.metadata.generation == 2
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    assert apps.patch_namespaced_deployment("d", NAMESPACE, operations).spec.replicas == 4
    with refused(ApiException, 422):
        apps.patch_namespaced_deployment("d", NAMESPACE, [{"op": "test", "path": "/spec/replicas", "value": 9}])
    merge = {"metadata": {"annotations": {"a": "b"}}, "spec": {"paused": True}}
    patched = apps.patch_namespaced_deployment("d", NAMESPACE, merge, _content_type="application/merge-patch+json")
    assert patched.metadata.annotations["a"] == "b" and patched.spec.paused


@check
def server_side_apply():
    def apply(manager, replicas, force=None):
        body = client.ApiClient().sanitize_for_serialization(deployment("applied", replicas))
        return apps.patch_namespaced_deployment(
            "applied", NAMESPACE, body, field_manager=manager, force=force, _content_type="application/apply-patch+yaml"
        )

    assert apply("one", 2).spec.replicas == 2
    with refused(ApiException, 409, '.spec.replicas'):
        apply("two", 3)
    taken = apply("two", 3, force=True)
    assert taken.spec.replicas == 3
    managers = {entry.manager: entry.operation for entry in taken.metadata.managed_fields}
    assert managers == {"one": "Apply", "two": "Apply"}, managers


@check
def scale_and_status():
    apps.create_namespaced_deployment(NAMESPACE, deployment("scaled", 1))
    scale = apps.read_namespaced_deployment_scale("scaled", NAMESPACE)
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("scaled", NAMESPACE, scale).spec.replicas == 5
    assert apps.read_namespaced_deployment("scaled", NAMESPACE).spec.replicas == 5
    status = {"status": {"replicas": 5}, "spec": {"replicas": 9}}
    patched = apps.patch_namespaced_deployment_status("scaled", NAMESPACE, status)
    assert patched.status.replicas == 5 and patched.spec.replicas == 5
    scale = apps.read_namespaced_deployment_scale("scaled", NAMESPACE)
    assert scale.status.replicas == 5 and scale.status.selector == "app=scaled"


@check
def watches_from_a_list():
    start = core.list_namespaced_config_map(NAMESPACE, label_selector="watched=yes").metadata.resource_version

    def write():
        core.create_namespaced_config_map(NAMESPACE, config_map("w", {"watched": "yes"}, key="1"))
        core.create_namespaced_config_map(NAMESPACE, config_map("unseen"))
        core.patch_namespaced_config_map("w", NAMESPACE, {"data": {"key": "2"}})
        core.delete_namespaced_config_map("w", NAMESPACE)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, label_selector="watched=yes", resource_version=start, timeout_seconds=30
    )
    for event in stream:
        seen.append((event["type"], event["object"].metadata.name, event["object"].data["key"]))
        if event["type"] == "DELETED":
            break
    writer.join()
    assert seen == [("ADDED", "w", "1"), ("MODIFIED", "w", "2"), ("DELETED", "w", "2")], seen


@check
def a_watch_ends_when_its_time_is_up():
    events = watch.Watch().stream(core.list_namespace, timeout_seconds=1)
    assert {event["type"] for event in events} == {"ADDED"}


@check
def custom_resources():
    definitions = client.ApiextensionsV1Api()
    name = definitions.create_custom_resource_definition(widget_definition()).metadata.name

    def established():
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        return any(c.type == "Established" and c.status == "True" for c in conditions)

    eventually("established", established)
    body = {"apiVersion": "/".join(GROUP), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1, "unknown": 2}}
    made = custom.create_namespaced_custom_object(*GROUP, NAMESPACE, "widgets", body)
    assert made["spec"] == {"size": 1, "colour": "grey"}, made["spec"]
    with refused(ApiException, 422, "spec.size"):
        custom.patch_namespaced_custom_object(*GROUP, NAMESPACE, "widgets", "w", {"spec": {"size": 101}})
    patched = custom.patch_namespaced_custom_object(*GROUP, NAMESPACE, "widgets", "w", {"spec": {"size": 7}})
    assert patched["spec"]["size"] == 7 and patched["metadata"]["generation"] == 2
    patched = custom.patch_namespaced_custom_object_status(
        *GROUP, NAMESPACE, "widgets", "w", {"status": {"ready": True}, "spec": {"size": 50}}
    )
    assert patched["status"] == {"ready": True} and patched["spec"]["size"] == 7
    scale = {"spec": {"replicas": 3}}
    custom.patch_namespaced_custom_object_scale(*GROUP, NAMESPACE, "widgets", "w", scale)
    assert custom.get_namespaced_custom_object_scale(*GROUP, NAMESPACE, "widgets", "w")["spec"]["replicas"] == 3
    assert len(custom.list_cluster_custom_object(*GROUP, "widgets")["items"]) == 1
    custom.delete_namespaced_custom_object(*GROUP, NAMESPACE, "widgets", "w")
    with refused(ApiException, 404):
        custom.get_namespaced_custom_object(*GROUP, NAMESPACE, "widgets", "w")


@check
def the_dynamic_client():
    dynamically = dynamic.DynamicClient(client.ApiClient())
    widgets = dynamically.resources.get(api_version="/".join(GROUP), kind="Widget")
    body = {"apiVersion": "/".join(GROUP), "kind": "Widget", "metadata": {"name": "dynamic"}, "spec": {"size": 2}}
    assert widgets.create(body=body, namespace=NAMESPACE).spec.colour == "grey"
    merge = {"metadata": {"name": "dynamic"}, "spec": {"size": 3}}
    patched = widgets.patch(body=merge, namespace=NAMESPACE, content_type="application/merge-patch+json")
    assert patched.spec.size == 3
    applied = widgets.server_side_apply(
        {**body, "metadata": {"name": "mine"}}, namespace=NAMESPACE, field_manager="dynamic"
    )
    assert applied.metadata.managedFields[0].operation == "Apply"
    assert sorted(item.metadata.name for item in widgets.get(namespace=NAMESPACE).items) == ["dynamic", "mine"]
    events = widgets.watch(namespace=NAMESPACE, timeout=1)
    assert sorted(event["object"].metadata.name for event in events) == ["dynamic", "mine"]
    assert widgets.status.patch(
        body={"metadata": {"name": "mine"}, "status": {"x": 1}},
        namespace=NAMESPACE,
        content_type="application/merge-patch+json",
    ).status.x == 1
    for name in ("dynamic", "mine"):
        widgets.delete(name=name, namespace=NAMESPACE)
    deployments = dynamically.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(name="d", namespace=NAMESPACE).metadata.name == "d"


@check
def objects_from_manifests():
    manifests = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "reader", "namespace": NAMESPACE},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE}],
        },
    ]
    for manifest in manifests:
        utils.create_from_dict(client.ApiClient(), manifest)


@check
def tokens_and_rights():
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    robot_config = client.Configuration.get_default_copy()
    robot_config.cert_file = robot_config.key_file = None
    robot_config.api_key = {"authorization": f"Bearer {token}"}
    api_client = client.ApiClient(robot_config)
    robot = client.CoreV1Api(api_client)
    assert robot.list_namespaced_config_map(NAMESPACE).items
    with refused(ApiException, 403, f"system:serviceaccount:{NAMESPACE}:robot"):
        robot.list_namespaced_secret(NAMESPACE)
    me = client.AuthenticationV1Api(api_client).create_self_subject_review(client.V1SelfSubjectReview())
    assert me.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:robot"
    attributes = client.V1ResourceAttributes(namespace=NAMESPACE, verb="get", resource="configmaps")
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api(api_client).create_self_subject_access_review(review).status.allowed


@check
def services_get_addresses():
    spec = client.V1ServiceSpec(ports=[client.V1ServicePort(port=80)], selector={"app": "d"})
    made = core.create_namespaced_service(NAMESPACE, client.V1Service(metadata=client.V1ObjectMeta(name="svc"), spec=spec))
    assert made.spec.cluster_ip and made.spec.type == "ClusterIP"
    address = client.NetworkingV1Api().read_ip_address(made.spec.cluster_ip)
    assert address.spec.parent_ref.name == "svc"
    core.delete_namespaced_service("svc", NAMESPACE)
    with refused(ApiException, 404):
        client.NetworkingV1Api().read_ip_address(made.spec.cluster_ip)


@check
def finalizers_hold_an_object():
    body = config_map("held")
    body.metadata.finalizers = ["clients.example.com/hold"]
    core.create_namespaced_config_map(NAMESPACE, body)
    core.delete_namespaced_config_map("held", NAMESPACE)
    assert core.read_namespaced_config_map("held", NAMESPACE).metadata.deletion_timestamp
    core.patch_namespaced_config_map("held", NAMESPACE, [{"op": "remove", "path": "/metadata/finalizers"}])
    with refused(ApiException, 404):
        core.read_namespaced_config_map("held", NAMESPACE)


@check
def leaders_are_elected():
    led = []

    def campaign(identity):
        def leading():
            led.append(identity)

        election = electionconfig.Config(
            LeaseLock("leader", NAMESPACE, identity),
            lease_duration=4,
            renew_deadline=3,
            retry_period=1,
            onstarted_leading=leading,
            onstopped_leading=None,
        )
        leaderelection.LeaderElection(election).run()

    threading.Thread(target=campaign, args=["first"], daemon=True).start()
    eventually("a leader", lambda: led == ["first"])
    threading.Thread(target=campaign, args=["second"], daemon=True).start()
    lease = client.CoordinationV1Api().read_namespaced_lease("leader", NAMESPACE)
    assert lease.spec.holder_identity == "first", lease.spec

    def renewed():
        spec = client.CoordinationV1Api().read_namespaced_lease("leader", NAMESPACE).spec
        return spec.holder_identity == "first" and spec.renew_time > lease.spec.renew_time

    eventually("a renewed lease", renewed)
    assert led == ["first"], led


run()
