use http::Request;
use store::Scope;

use super::*;
use crate::control_plane::Charter;
use crate::fixture::{Fixture, HOST, administrator, text};
use crate::{ApiServer, Beginning, Body, DataKeys};

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// Two stores behind one server, and a control plane `b` with one object in the first.
struct Two {
    here: Arc<Engine>,
    there: Arc<Engine>,
    engines: Engines,
    _directories: [Fixture; 2],
}

fn good<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| panic!("{}", failure.0.message))
}

impl Two {
    async fn new() -> Two {
        let (first, second) = (Fixture::new().await, Fixture::new().await);
        for name in [HOST, "a"] {
            good(second.engine.delete_control_plane(name).await);
        }
        let here = first.engine.clone();
        let there = here.beside("there", second.engine.store.clone());
        good(here.create_control_plane("b").await);
        let engines = Engines::new(here.clone(), vec![there.clone()]);
        let two = Two { here, there, engines, _directories: [first, second] };
        two.make("x").await;
        two
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.extension(administrator("b")).body(body.to_owned()).unwrap();
        let server = ApiServer::new(self.engines.clone());
        let response: http::Response<Body> = tower::ServiceExt::oneshot(server, request).await.unwrap();
        (response.status().as_u16(), text(response).await)
    }

    async fn make(&self, name: &str) -> u64 {
        let (code, made) = self.ask("POST", PATH, &format!(r#"{{"metadata": {{"name": "{name}"}}}}"#)).await;
        assert_eq!(code, 201, "{made}");
        version(&made)
    }

    async fn move_to(&self, to: &Arc<Engine>) -> Option<Moved> {
        good(self.engines.move_to("b", to).await)
    }

    async fn settle(&self) {
        good(self.engines.settle("b", None).await);
    }

    async fn tenant(&self, engine: &Engine) -> Option<Tenant> {
        engine.store.tenant("b").await.unwrap()
    }

    /// A move that has come as far as `step`.
    async fn broken_off(&self, step: Step) {
        let tenant = self.tenant(&self.here).await.unwrap();
        let intent = Intent { to: "there".into(), decided: false };
        let begun =
            self.here.store.write(tenant.id, vec![intent.put(Expect::Absent).unwrap()]).await.unwrap();
        let moving = Move { from: &self.here, to: &self.there, tenant: &tenant, begun };
        if step >= Step::Copied {
            let mut copying = good(Copying::begin(&self.here, &self.there, &tenant).await);
            good(copying.catch_up().await);
            if step >= Step::Frozen {
                good(copying.catch_up_to(good(moving.freeze().await)).await);
            }
        }
        if step >= Step::Decided {
            good(moving.decide().await);
        }
        if step >= Step::Left {
            self.here.store.delete_tenant(tenant.id).await.unwrap();
            self.here.planes.forget("b");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Intended,
    Copied,
    Frozen,
    Decided,
    Left,
}

fn version(answer: &str) -> u64 {
    let object: objects::Value = serde_json::from_str(answer).unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn it_is_served_from_where_it_went() {
    let two = Two::new().await;
    let before = two.make("y").await;
    let moved = two.move_to(&two.there).await.unwrap();
    assert_eq!((moved.from.as_str(), moved.to.as_str()), ("default", "there"));
    assert!(two.here.planes.find("b").await.unwrap().is_none());
    assert!(two.there.planes.find("b").await.unwrap().is_some());
    assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 200);
    let made = two.make("z").await;
    assert!(made > before);
    assert_eq!(two.move_to(&two.there).await, None, "it is there already");
    // And back again.
    assert!(two.move_to(&two.here).await.is_some());
    let body = r#"{"metadata": {"name": "z"}, "data": {"k": "v"}}"#;
    let (_, back) = two.ask("PUT", &format!("{PATH}/z"), body).await;
    assert!(version(&back) > made, "{back}");
    let plane = two.here.planes.find("b").await.unwrap().unwrap();
    for kind in [MOVE, FROZEN, ARRIVAL] {
        assert_eq!(two.here.store.count(plane.id, &Scope::Kind(kind.into())).await.unwrap(), 0, "{kind}");
    }
}

/// What is written while it is copied is there afterwards, and what is deleted is not.
#[tokio::test]
async fn what_happens_meanwhile_comes_with_it() {
    let two = Two::new().await;
    let tenant = two.tenant(&two.here).await.unwrap();
    let intent = Intent { to: "there".into(), decided: false };
    let begun = two.here.store.write(tenant.id, vec![intent.put(Expect::Absent).unwrap()]).await.unwrap();
    let moving = Move { from: &two.here, to: &two.there, tenant: &tenant, begun };
    let mut copying = good(Copying::begin(&two.here, &two.there, &tenant).await);
    for number in 0..250 {
        two.make(&format!("early-{number}")).await;
    }
    assert_eq!(two.ask("DELETE", &format!("{PATH}/x"), "").await.0, 200);
    good(copying.catch_up().await);
    two.make("late").await;
    assert_eq!(two.ask("DELETE", &format!("{PATH}/early-7"), "").await.0, 200);
    good(copying.catch_up_to(good(moving.freeze().await)).await);
    good(moving.decide().await);
    good(settling::finish(&two.here, &two.there, &tenant).await);
    let (_, list) = two.ask("GET", PATH, "").await;
    let list: objects::Value = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names.len(), 251, "{names:?}");
    for (name, there) in [("x", false), ("early-7", false), ("early-8", true), ("late", true)] {
        assert_eq!(names.contains(&name), there, "{name}");
    }
}

#[tokio::test]
async fn whoever_writes_meanwhile_is_told_to_come_again() {
    let two = Two::new().await;
    two.broken_off(Step::Frozen).await;
    let (code, told) = two.ask("POST", PATH, r#"{"metadata": {"name": "y"}}"#).await;
    assert_eq!(code, 503, "{told}");
    assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 200);
}

#[tokio::test]
async fn between_two_stores_it_is_not_said_to_be_gone() {
    let two = Two::new().await;
    two.broken_off(Step::Left).await;
    assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 503);
}

#[tokio::test]
async fn what_broke_off_is_called_off_or_finished() {
    for step in [Step::Intended, Step::Copied, Step::Frozen, Step::Decided, Step::Left] {
        let two = Two::new().await;
        two.broken_off(step).await;
        two.settle().await;
        let stays = step < Step::Decided;
        assert_eq!(two.tenant(&two.here).await.is_some(), stays, "{step:?}");
        assert_eq!(two.tenant(&two.there).await.is_some(), !stays, "{step:?}");
        assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 200, "{step:?}");
        two.make("y").await;
        // Another time changes nothing.
        two.settle().await;
        assert_eq!(two.ask("GET", &format!("{PATH}/y"), "").await.0, 200, "{step:?}");
        // And it moves as any other.
        let (from, to) = if stays { (&two.here, &two.there) } else { (&two.there, &two.here) };
        assert_eq!(two.move_to(to).await.unwrap().from, from.name);
    }
}

/// It was copied, and its maker went before anybody was told.
#[tokio::test]
async fn a_copy_that_nobody_was_told_of_is_told_once() {
    let two = Two::new().await;
    let (engine, original) = (&two.here, two.tenant(&two.here).await.unwrap());
    let record =
        engine.planes.new_record("c", Charter::default(), true, &DataKeys::generate(), engine.now()).unwrap();
    let copy = engine.store.fork_tenant(original.id, None, "c", record).await.unwrap();
    let mut revisions = vec![engine.store.revision(copy.id).await.unwrap()];
    for _ in 0..2 {
        good(two.engines.settle("c", None).await);
        revisions.push(engine.store.revision(copy.id).await.unwrap());
    }
    assert!(revisions[0] < revisions[1] && revisions[1] == revisions[2], "{revisions:?}");
    assert!(engine.store.get(copy.id, &Key::new(ARRIVAL, "", COPIED)).await.unwrap().is_none());
}

/// A mover that was paused comes back after another has called its move off, and maybe begun anew.
#[tokio::test]
async fn who_was_overtaken_does_no_harm() {
    let two = Two::new().await;
    let tenant = two.tenant(&two.here).await.unwrap();
    let intent = Intent { to: "there".into(), decided: false };
    let begun = two.here.store.write(tenant.id, vec![intent.put(Expect::Absent).unwrap()]).await.unwrap();
    let old = Move { from: &two.here, to: &two.there, tenant: &tenant, begun };
    let mut copying = good(Copying::begin(&two.here, &two.there, &tenant).await);
    good(copying.catch_up().await);
    two.settle().await;
    assert!(old.freeze().await.is_err());
    assert!(old.decide().await.is_err());
    two.make("y").await;
    two.broken_off(Step::Copied).await;
    assert!(old.decide().await.is_err());
    two.settle().await;
    assert!(two.tenant(&two.there).await.is_none());
    two.make("z").await;
}

#[tokio::test]
async fn what_was_left_by_an_owner_who_is_gone_is_not_opened() {
    let two = Two::new().await;
    two.broken_off(Step::Left).await;
    good(two.engines.settle("b", Some("another")).await);
    assert!(two.tenant(&two.there).await.is_none());
}

#[tokio::test]
async fn without_the_other_store_nothing_is_decided() {
    let two = Two::new().await;
    two.broken_off(Step::Decided).await;
    for alone in [&two.here, &two.there] {
        let alone = Engines::from(alone.clone());
        let told = alone.settle("b", None).await.unwrap_err().0.message;
        assert!(told.contains("which this server does not have"), "{told}");
    }
    two.settle().await;
    assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 200);
}

#[tokio::test]
async fn a_name_that_is_taken_there_is_refused() {
    let two = Two::new().await;
    good(two.there.create_control_plane("b").await);
    let refused = two.engines.move_to("b", &two.there).await.unwrap_err();
    assert_eq!(refused.0.reason, Reason::AlreadyExists);
    two.make("y").await;
}

/// A third store that nobody reaches: what is in the others is found, moved, settled and removed all the same.
#[tokio::test]
async fn a_store_that_is_away_keeps_nobody_from_the_others() {
    let mut two = Two::new().await;
    let (away, _arrival) = store::late("nobody there");
    let away = two.here.beside("away", away);
    two.engines = Engines::new(two.here.clone(), vec![away.clone(), two.there.clone()]);
    let (here, there) = (two.here.clone(), two.there.clone());
    for to in [&there, &here, &there] {
        two.settle().await;
        assert!(two.move_to(to).await.is_some());
        assert_eq!(two.ask("GET", &format!("{PATH}/x"), "").await.0, 200);
    }
    let refused = two.engines.move_to("b", &away).await.unwrap_err().0;
    assert_eq!((refused.code, refused.retry_after_seconds), (503, Some(1)));
    assert_eq!(refused.message, "the store is unavailable: nobody there");
    two.make("y").await;
    // It may have had what nobody else has.
    assert_eq!(two.engines.find("c").await.err().map(|failure| failure.0.code), Some(503));
    assert_eq!(two.engines.settle("c", None).await.err().map(|failure| failure.0.code), Some(503));
    // What is there is gone, and what may be elsewhere is asked for again.
    let charter = Charter { owner: Some("u".into()), ..Charter::default() };
    good(there.establish("d", charter, Beginning::Empty).await);
    assert_eq!(two.engines.remove("d", "u").await.err().map(|failure| failure.0.code), Some(503));
    assert!(there.store.tenant("d").await.unwrap().is_none());
}

/// Whoever lost a lease of the first store writes nothing to the second either.
#[tokio::test]
async fn a_fence_of_the_first_store_holds_in_all() {
    let two = Two::new().await;
    let lease = store::own_tenant(&*two.here.store, "_lease-l").await.unwrap();
    let take = async || {
        let key = Key::new("_terms", "", "l");
        let put = Operation::Put { key: key.clone(), expect: Expect::Any, value: Bytes::new() };
        let modified = two.here.store.write(lease, vec![put]).await.unwrap();
        two.engines.fenced(&store::Fence { tenant: lease, key, modified })
    };
    let old = take().await;
    let made = old.named("there").unwrap().create_control_plane("made").await;
    good(made);
    let new = take().await;
    // Where it is there it is claimed, sooner or later; looking at it does so.
    assert!(good(new.find("made").await).is_some());
    new.named("there").unwrap().store.position().await.unwrap();
    for engine in old.iter() {
        let late = engine.create_control_plane("late").await.err().map(|failure| failure.0.message.clone());
        assert_eq!(late, Some(StoreError::Fenced.to_string()), "{}", engine.name);
    }
    assert!(old.move_to("b", old.named("there").unwrap()).await.is_err());
    good(new.move_to("b", new.named("there").unwrap()).await);
    assert!(two.tenant(&two.there).await.is_some());
}
