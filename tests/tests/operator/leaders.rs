//! Two operators of one cluster: one works, the other takes over when that one is gone.

use serde_json::{Value, json};

use super::cluster::{Cluster, eventually};

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kubeflex-system/leases/c6f71c85.kflex.kubestellar.org";

fn holder(cluster: &Cluster) -> Option<String> {
    let lease = cluster.find(LEASE)?;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

#[test]
fn one_works_and_the_other_takes_over() {
    let cluster = Cluster::installed(&[]);
    // With the rights that the manifests give.
    let first = cluster.operator_named("first", &["--leader-elect"]);
    let held = eventually("one leads", || holder(&cluster));
    eventually("the one that leads works", || first.said().contains("operating").then_some(()));
    let second = cluster.operator_named("second", &["--leader-elect"]);
    cluster.create("cp1", json!({"type": "k8s", "backend": "dedicated"}));
    cluster.await_condition("cp1", "Synced", "True");
    assert_eq!(holder(&cluster).as_ref(), Some(&held));
    assert!(!second.said().contains("operating"), "{}", second.said());

    // Gone without a word: the lease runs out, and what is asked for meanwhile is done by the other one.
    first.kill();
    cluster.create("cp2", json!({"type": "k8s", "backend": "dedicated"}));
    cluster.await_condition("cp2", "Synced", "True");
    let next = holder(&cluster).unwrap();
    assert_ne!(next, held);
    assert_eq!(cluster.get(LEASE)["spec"]["leaseTransitions"], 1);
    assert!(second.said().contains("operating"), "{}", second.said());

    // Stopped in peace, it gives the lease back, and the next one need not wait for it to run out.
    drop(second);
    assert_eq!(holder(&cluster), None);
    let third = cluster.operator_named("third", &["--leader-elect"]);
    eventually("the next one works", || third.said().contains("operating").then_some(()));
    assert_eq!(cluster.get(LEASE)["spec"]["leaseTransitions"], 2);

    // Somebody who takes it away is not argued with.
    let mut lease = cluster.get(LEASE);
    lease["spec"]["holderIdentity"] = Value::from("somebody");
    cluster.patch(LEASE, json!({"spec": lease["spec"]}));
    third.ends_with_failure("another operator of the cluster leads now");
}
