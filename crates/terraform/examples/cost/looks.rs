//! What the host itself costs: a warm look at a resource, and thousands of kinds. Prints a JSON line for each.
//!
//! `cargo run --release -p terraform --example cost`, with `--example shelf` built the same way.

// A tool for people: it talks on standard output.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use serde_json::json;
use terraform::plugin::{Launch, Pool, PoolSettings, State};
use terraform::registry::{Registry, Served};
use terraform::value::Value;
use terraform::{change, shape};

const LOOKS: u32 = 2_000;
const TYPES: usize = 2_000;

/// CPU of this process so far, in milliseconds; its children not counted.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().filter_map(|at| after_name.get(*at)?.parse::<f64>().ok()).sum();
    ticks * 10.0
}

/// Resident memory, in bytes.
fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4_096
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?.with_file_name("shelf");
    let sockets = std::env::temp_dir().join(format!("cost-{}", std::process::id()));
    let cloud = sockets.join("cloud");
    std::fs::create_dir_all(&cloud)?;
    let pool = Pool::new(PoolSettings::new(&sockets));
    let directory = cloud.to_str().unwrap_or_default();
    let config = Value::Fields([("directory".to_owned(), Value::string(directory))].into());
    looks(&pool, &Launch::new(&program), &config).await?;
    kinds(&pool, &program).await?;
    pool.close();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    std::fs::remove_dir_all(&sockets)?;
    Ok(())
}

/// Read and Plan of a resource that is as desired.
async fn looks(pool: &Pool, launch: &Launch, config: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let kind = "shelf_thing";
    let lease = pool.lease(launch, "cost", config).await?;
    let schema = lease.catalogue().resource(kind)?;
    let object = json!({"name": "one", "size": 3, "tags": {"a": "b"}, "rule": [{"port": 80}, {"port": 443}]});
    let config = shape::desired(&schema.block, &object)?;
    let proposed = change::proposed(&schema.block, &Value::Null, &config);
    let planned = lease.plan(kind, &State::none(), &proposed, &config).await?;
    let applied = lease.apply(kind, &State::none(), &planned, &config, None).await?;
    let mut state = applied.state.ok_or("nothing was made")?;
    let (began, before) = (Instant::now(), cpu());
    for _ in 0..LOOKS {
        state = lease.read(kind, &state).await?.state.ok_or("it is gone")?;
        let config = shape::desired(&schema.block, &object)?;
        let proposed = change::proposed(&schema.block, &state.value, &config);
        let planned = lease.plan(kind, &state, &proposed, &config).await?;
        if !change::differences(&schema.block, &state.value, &planned.state).is_empty() {
            return Err("it differs".into());
        }
    }
    let each = |total: f64| total / f64::from(LOOKS);
    let line = json!({
        "scenario": "terraform_read_plan", "looks": LOOKS,
        "cpu_ms_each": each(cpu() - before), "wall_ms_each": each(began.elapsed().as_secs_f64() * 1e3),
    });
    println!("{line}");
    Ok(())
}

/// A provider with very many types: what they cost until somebody uses them.
async fn kinds(pool: &Pool, program: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut launch = Launch::new(program);
    launch.environment.insert("TYPES".into(), auth::Secret::new(TYPES.to_string()));
    let (began, before) = (Instant::now(), memory());
    let catalogue = pool.catalogue(&launch, "many").await?;
    let (types, bytes) = (catalogue.resource_types().count(), catalogue.bytes());
    let registry = Registry::default();
    registry.set(Served { name: "many".into(), launch, digest: "many".into(), catalogue });
    let offers = registry.offers().len();
    let line = json!({
        "scenario": "terraform_kinds", "types": types, "offers": offers, "schema_bytes": bytes,
        "memory_bytes": memory().saturating_sub(before), "ready_ms": began.elapsed().as_secs_f64() * 1e3,
    });
    println!("{line}");
    Ok(())
}
