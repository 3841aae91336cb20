//! Read and Plan of a resource that is as desired: what a look at it costs, when its provider runs already.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use terraform::plugin::{Launch, Pool, State};
use terraform::value::Value;
use terraform::{change, shape};

use super::{cpu, shelf};

const LOOKS: u32 = 2_000;

pub async fn measure(pool: &Pool, cloud: &Path) {
    let kind = "shelf_thing";
    let directory = cloud.to_str().unwrap();
    let config = Value::Fields([("directory".to_owned(), Value::string(directory))].into());
    let lease = pool.lease(&Launch::new(shelf()), "cost", &config).await.unwrap();
    let schema = lease.catalogue().resource(kind).unwrap();
    let object = json!({"name": "one", "size": 3, "tags": {"a": "b"}, "rule": [{"port": 80}, {"port": 443}]});
    let config = shape::desired(&schema.block, &object).unwrap();
    let proposed = change::proposed(&schema.block, &Value::Null, &config);
    let planned = lease.plan(kind, &State::none(), &proposed, &config).await.unwrap();
    let applied = lease.apply(kind, &State::none(), &planned, &config, None).await.unwrap();
    let mut state = applied.state.unwrap();
    let (began, before) = (Instant::now(), cpu());
    for _ in 0..LOOKS {
        state = lease.read(kind, &state).await.unwrap().answer.unwrap();
        let config = shape::desired(&schema.block, &object).unwrap();
        let proposed = change::proposed(&schema.block, &state.value, &config);
        let planned = lease.plan(kind, &state, &proposed, &config).await.unwrap();
        assert!(change::differences(&schema.block, &state.value, &planned.state).is_empty(), "it differs");
    }
    let each = |total: f64| total / f64::from(LOOKS);
    let line = json!({
        "scenario": "terraform, look", "looks": LOOKS,
        "cpu_ms": each(cpu() - before), "wall_ms": each(began.elapsed().as_secs_f64() * 1e3),
    });
    println!("{line}");
}
