//! Measures the candidates for the embedded store on the work that it does: small durable writes with group
//! commit, point reads, ranges, ten thousand tenants, copying a tenant.
//!
//! `cargo run --release -- redb|fjall|sqlite DIRECTORY [TENANTS] [reopen]`; one engine per process, so that memory is its own.

mod engines;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

pub type Pair = (Vec<u8>, Vec<u8>);

/// What the comparison needs of an engine: two ordered tables and a durable commit over both.
pub trait Engine: Send + Sync + 'static {
    /// Puts `current` and `log` pairs in one durable commit.
    fn commit(&self, current: &[Pair], log: &[Pair]);
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// Counts entries and bytes of a range, touching every value.
    fn range(&self, from: &[u8], to: &[u8]) -> (usize, usize);
    /// Copies a tenant's range to another tenant in one durable commit.
    fn copy(&self, from: u64, to: u64);
    /// Deletes a tenant's range in one durable commit.
    fn delete(&self, tenant: u64);
}

fn key(tenant: u64, index: u64) -> Vec<u8> {
    let mut key = tenant.to_be_bytes().to_vec();
    key.extend_from_slice(format!("configmaps\0default\0object-{index:08}").as_bytes());
    key
}

/// A splitmix64 sequence: enough randomness for a load, and the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// About 1 kB that compresses as JSON objects do.
fn value(random: &mut Random) -> Vec<u8> {
    let mut text = String::from(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"#);
    while text.len() < 1000 {
        text += &format!(r#""app.kubernetes.io/part-{}":"{:016x}","#, text.len(), random.next());
    }
    text.truncate(1000);
    text.into_bytes()
}

struct Request {
    key: Vec<u8>,
    value: Vec<u8>,
    done: mpsc::SyncSender<()>,
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / 100.0
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or("x 0 kB");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn directory_size(path: &Path) -> u64 {
    directory_bytes(path) >> 20
}

fn directory_bytes(path: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(data) if data.is_dir() => sum += directory_bytes(&entry.path()),
            Ok(data) => sum += data.len(),
            Err(_) => {}
        }
    }
    sum
}

static POSITION: AtomicU64 = AtomicU64::new(0);

fn durable_writes(engine: &Arc<dyn Engine>, writers: u64, tenants: u64, label: &str) {
    let (send, receive) = mpsc::sync_channel::<Request>(1024);
    let stop = Arc::new(AtomicBool::new(false));
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let committer = {
        let engine = engine.clone();
        std::thread::spawn(move || {
            let (mut commits, mut writes) = (0u64, 0u64);
            while let Ok(first) = receive.recv() {
                let mut batch = vec![first];
                batch.extend(receive.try_iter().take(511));
                let mut current = Vec::new();
                let mut log = Vec::new();
                let mut waiting = Vec::new();
                for request in batch {
                    let position = POSITION.fetch_add(1, Ordering::Relaxed);
                    log.push((position.to_be_bytes().to_vec(), request.key.clone()));
                    current.push((request.key, request.value));
                    waiting.push(request.done);
                }
                engine.commit(&current, &log);
                commits += 1;
                writes += waiting.len() as u64;
                waiting.iter().for_each(|done| _ = done.send(()));
            }
            (commits, writes)
        })
    };
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (send, stop) = (send.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut random = Random(writer + 1);
                let mut latencies = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let (done, wait) = mpsc::sync_channel(1);
                    let key = key(random.next() % tenants, random.next() % 100);
                    let value = value(&mut random);
                    let start = Instant::now();
                    if send.send(Request { key, value, done }).is_err() || wait.recv().is_err() {
                        break;
                    }
                    latencies.push(start.elapsed());
                }
                latencies
            })
        })
        .collect();
    drop(send);
    std::thread::sleep(Duration::from_secs(5));
    stop.store(true, Ordering::Relaxed);
    let mut latencies: Vec<Duration> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let (commits, writes) = committer.join().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    latencies.sort();
    let at = |share: f64| latencies[(latencies.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{label}: {:.0} writes/s, {:.1} per commit, p50 {:.2} p99 {:.2} max {:.1} ms, {:.0} CPU us per write",
        writes as f64 / seconds,
        writes as f64 / commits as f64,
        at(0.5),
        at(0.99),
        latencies.last().unwrap().as_secs_f64() * 1e3,
        (cpu_seconds() - cpu) * 1e6 / writes as f64
    );
}

fn timed<T>(label: &str, times: u32, mut work: impl FnMut() -> T) {
    let start = Instant::now();
    let cpu = cpu_seconds();
    for _ in 0..times {
        std::hint::black_box(work());
    }
    let each = start.elapsed() / times;
    println!("{label}: {each:?} each, {:.2} CPU ms each", (cpu_seconds() - cpu) * 1e3 / f64::from(times));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let path = Path::new(&arguments[2]);
    let tenants: u64 = arguments.get(3).map_or(10_000, |text| text.parse().unwrap());
    let open = || engines::open(&arguments[1], path);
    if arguments.iter().any(|argument| argument == "reopen") {
        let start = Instant::now();
        let engine = open();
        engine.get(&key(1, 1)).unwrap();
        println!("open after a crash, and one read: {:?}", start.elapsed());
        return;
    }
    std::fs::remove_dir_all(path).ok();
    std::fs::create_dir_all(path).unwrap();

    let engine = open();
    println!("== {} ==  resident when empty {} MiB", arguments[1], memory("VmRSS"));
    durable_writes(&engine, 1, 10, "empty,    1 writer ");
    durable_writes(&engine, 16, 10, "empty,   16 writers");
    durable_writes(&engine, 256, 10, "empty,  256 writers");

    let start = Instant::now();
    let mut random = Random(7);
    for tenant in (0..tenants).collect::<Vec<_>>().chunks(50) {
        let current: Vec<Pair> = tenant
            .iter()
            .flat_map(|tenant| (0..100).map(|index| key(*tenant, index)).collect::<Vec<_>>())
            .map(|key| (key, value(&mut random)))
            .collect();
        let log: Vec<Pair> = current
            .iter()
            .map(|(key, _)| (POSITION.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec(), key.clone()))
            .collect();
        engine.commit(&current, &log);
    }
    let big = 1 << 40;
    let current: Vec<Pair> = (0..10_000).map(|index| (key(big, index), value(&mut random))).collect();
    engine.commit(&current, &[]);
    println!(
        "load of {tenants} tenants x 100: {:.1} s; resident {} MiB (peak {}), on disk {} MiB",
        start.elapsed().as_secs_f64(),
        memory("VmRSS"),
        memory("VmHWM"),
        directory_size(path)
    );
    durable_writes(&engine, 16, tenants, "loaded,  16 writers");
    durable_writes(&engine, 256, tenants, "loaded, 256 writers");
    println!(
        "resident {} MiB (peak {}), on disk {} MiB",
        memory("VmRSS"),
        memory("VmHWM"),
        directory_size(path)
    );
    drop(engine);

    let start = Instant::now();
    let engine = open();
    println!(
        "open: {:?}, resident {} MiB, on disk {} MiB",
        start.elapsed(),
        memory("VmRSS"),
        directory_size(path)
    );
    let mut random = Random(9);
    timed("point read, random over all", 100_000, || {
        engine.get(&key(random.next() % tenants, random.next() % 100)).unwrap()
    });
    timed("point read, within one tenant", 100_000, || engine.get(&key(77, random.next() % 100)).unwrap());
    timed("range of 10,000", 20, || assert_eq!(engine.range(&key(big, 0), &key(big, 10_000)).0, 10_000));
    timed("range of 100, random tenant", 1_000, || {
        let tenant = random.next() % tenants;
        assert!(engine.range(&key(tenant, 0), &key(tenant, 100)).0 >= 100)
    });
    let mut copy = big;
    timed("durable copy of 10,000", 5, || {
        copy += 1;
        engine.copy(big, copy)
    });
    timed("durable delete of 10,000", 3, || {
        engine.delete(copy);
        copy -= 1;
    });
    println!(
        "resident {} MiB (peak {}), on disk {} MiB",
        memory("VmRSS"),
        memory("VmHWM"),
        directory_size(path)
    );
    durable_writes(&engine, 16, tenants, "again,   16 writers");
    // As a crash would: nothing is closed. Run once more with `reopen` as last argument to see what that costs.
    std::process::exit(0);
}
