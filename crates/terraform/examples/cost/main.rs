//! What Terraform providers cost us: a warm look at a resource, many objects of one provider, and thousands of kinds in many
//! tenants. Prints a JSON line for each.
//!
//! `cargo run --release -p terraform --example cost -- OBJECTS KINDS TENANTS`, with `--example shelf` built the same way.
//! `cargo xtask bench` runs it for docs/benchmarks.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures, run by hand")]

mod fleet;
mod looks;

use std::path::PathBuf;

use terraform::plugin::{Pool, PoolSettings};

// As the product does, and without huge pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU of this process so far, in milliseconds; its children not counted.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().filter_map(|at| after_name.get(*at)?.parse::<f64>().ok()).sum();
    ticks * 10.0
}

/// Resident memory, in MiB.
fn memory() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096.0 / 1_048_576.0
}

/// The provider, built beside this.
fn shelf() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("shelf")
}

#[tokio::main]
async fn main() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments: Vec<usize> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let [objects, kinds, tenants] = arguments[..] else { panic!("usage: cost OBJECTS KINDS TENANTS") };
    let directory = std::env::temp_dir().join(format!("cost-{}", std::process::id()));
    let cloud = directory.join("cloud");
    std::fs::create_dir_all(&cloud).unwrap();
    let pool = Pool::new(PoolSettings::new(directory.join("p")));
    looks::measure(&pool, &cloud).await;
    fleet::objects(&pool, &directory, objects).await;
    fleet::kinds(&pool, &directory, kinds, tenants).await;
    pool.close();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    std::fs::remove_dir_all(&directory).unwrap();
}
