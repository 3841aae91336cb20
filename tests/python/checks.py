"""Named checks of one client library: each says `ok NAME`, and the first that fails ends the script."""

import contextlib
import os
import sys
import time
import traceback

_checks = []


def check(function):
    _checks.append(function)
    return function


def run():
    assert os.environ.get("KUBECONFIG"), "KUBECONFIG says which control plane to use"
    for function in _checks:
        try:
            function()
        except BaseException:
            traceback.print_exc()
            print(f"failed {function.__name__}", flush=True)
            sys.exit(1)
        print(f"ok {function.__name__}", flush=True)


def eventually(what, probe, patience=30.0):
    """Waits for what other processes of a control plane do in their own time."""
    deadline = time.monotonic() + patience
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {patience} s"
        time.sleep(0.05)


@contextlib.contextmanager
def refused(error, status, reason=None, code=lambda e: e.status):
    """The block has to be refused with this HTTP status."""
    try:
        yield
    except error as refusal:
        assert code(refusal) == status, refusal
        if reason is not None:
            assert reason in str(refusal) or reason in str(getattr(refusal, "body", "")), refusal
    else:
        raise AssertionError(f"was not refused with {status}")


def widget_definition(plural="widgets", group="clients.example.com"):
    """A custom resource with a schema, a status and a scale."""
    singular = plural[:-1]
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "maximum": 100},
                    "colour": {"type": "string", "default": "grey"},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": singular.capitalize()},
            "versions": [version],
        },
    }
