//! What is the embedded engine's own: opening, disks that misbehave, bounded memory. The rest is `conformance`.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::*;
use crate::{Delivery, Expect, Key, Operation, Revision, Scope, Store};

fn put(name: &str, value: &str) -> Operation {
    Operation::Put {
        key: Key::new("things", "ns", name),
        expect: Expect::Any,
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

#[tokio::test]
async fn smoke() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(directory.path(), Options::default()).unwrap());
    let tenant = store
        .create_tenant("one", Bytes::new(), vec![(Key::new("things", "ns", "first"), Bytes::from("0"))])
        .await
        .unwrap()
        .id;
    let mut watch = store.watch(tenant, Scope::Kind("things".into()), Revision(0)).await.unwrap();
    assert_eq!(store.write(tenant, vec![put("a", "1"), put("b", "2")]).await.unwrap(), Revision(2));
    assert_eq!(store.write(tenant, vec![put("a", "3")]).await.unwrap(), Revision(3));
    let page = store.range(tenant, &Scope::Kind("things".into()), None, Some(Revision(2)), 0).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| &entry.value[..]).collect::<Vec<_>>(), [b"1", b"2", b"0"]);
    let mut seen = Vec::new();
    while seen.len() < 4 {
        if let Delivery::Event(event) = watch.next().await.unwrap().unwrap() {
            seen.push((event.key.name.to_string(), event.revision.0));
        }
    }
    assert_eq!(seen, [("first".into(), 1), ("a".into(), 2), ("b".into(), 2), ("a".into(), 3)]);
    store.close().await;
}
