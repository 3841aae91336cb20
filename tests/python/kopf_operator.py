"""An operator as kopf's users write it: handlers, a status, a finalizer. Run by `kopf run`, not by itself."""

import kopf

KIND = ("clients.example.com", "v1", "sprockets")


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "clients.example.com/finalizer"
    # Kopf keeps its progress in the status, so that this test sees the subresource used by something real.
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.kopf.progress")
    settings.posting.level = 0


@kopf.on.create(*KIND)
def created(spec, patch, body, **_):
    kopf.event(body, type="Normal", reason="Greased", message="It turns")
    patch.status["teeth"] = spec["size"] * 2
    return {"handled": "create"}


@kopf.on.update(*KIND, field="spec.size")
def resized(old, new, patch, **_):
    patch.status["teeth"] = new * 2
    patch.status["was"] = old * 2


@kopf.on.delete(*KIND)
def deleted(retry, name, logger, **_):
    # The first try fails, so that the object has to wait for its finalizer.
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.5)
    logger.info(f"{name} is gone for good")


@kopf.timer(*KIND, interval=0.5, initial_delay=0.2)
def turned(status, patch, **_):
    patch.status["turns"] = status.get("turns", 0) + 1


@kopf.index(*KIND)
def by_colour(spec, name, **_):
    return {spec["colour"]: name}


@kopf.on.event("configmaps", labels={"ask": "colours"})
def colours(body, namespace, name, by_colour, patch, **_):
    patch.metadata.annotations["answer"] = ",".join(sorted(n for names in by_colour.values() for n in names))
