//! What Terraform providers cost us: a warm look at a resource, many objects of one provider, and thousands of kinds in many
//! tenants. Prints a JSON line for each.
//!
//! `cargo run --release -p terraform --example cost -- OBJECTS KINDS TENANTS`, with `--example shelf` built the same way.
//! `cargo xtask bench` runs it for docs/benchmarks.md.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures, run by hand")]

mod fleet;
mod looks;

use std::path::PathBuf;

use terraform::plugin::{Isolation, Pool, PoolSettings, ProviderPath};

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

fn main() -> std::process::ExitCode {
    if let Some(ended) = sandbox::run_as_launcher(std::env::args_os()) {
        return ended;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(measure());
    std::process::ExitCode::SUCCESS
}

async fn measure() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments: Vec<usize> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let [objects, kinds, tenants] = arguments[..] else { panic!("usage: cost OBJECTS KINDS TENANTS") };
    let directory = std::env::temp_dir().join(format!("cost-{}", std::process::id()));
    let cloud = directory.join("cloud");
    std::fs::create_dir_all(&cloud).unwrap();
    // Whoever the provider is in its sandbox, it writes the cloud.
    std::fs::set_permissions(&cloud, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let sandbox = sandbox::Sandbox::probe(sandbox::Launcher::own(), Vec::new()).await;
    let share = sandbox::Share { path: directory.clone(), writable: true };
    let isolation =
        Isolation::new(sandbox.map_err(|error| error.to_string()), directory.join("p"), Default::default());
    let isolation = isolation.with_paths([ProviderPath { provider: None, share }]);
    let pool = Pool::new(PoolSettings::new(isolation));
    looks::measure(&pool, &cloud).await;
    fleet::objects(&pool, &directory, objects).await;
    fleet::kinds(&pool, &directory, kinds, tenants).await;
    pool.close();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    std::fs::remove_dir_all(&directory).unwrap();
}
