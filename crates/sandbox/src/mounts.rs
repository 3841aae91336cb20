//! The files of a sandbox: a new root with nothing but what it needs, mounted from this machine read-only.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::elf;
use crate::network::NAMESERVER;
use crate::spec::{Failure, INSIDE, Job, PROGRAM, TEMPORARY, Trees};

/// Where the new root is mounted until it is the root; the first that there is.
const PLACES: [&str; 6] = ["/tmp", "/run", "/var/tmp", "/mnt", "/srv", "/usr"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// CA certificates, in the places of the distributions, and time zones.
const DATA: [&str; 10] = [
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/zoneinfo",
    "/etc/localtime",
];
const LIBRARIES: [&str; 8] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
];
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"];

enum What {
    /// A part of this machine.
    Tree { source: PathBuf, open: Option<OwnedFd> },
    /// A link as it is on this machine.
    Link(PathBuf),
    /// Nothing, in front of what is hidden.
    Nothing,
    /// The program's own directory.
    Temporary,
}

struct Entry {
    target: PathBuf,
    what: What,
    writable: bool,
}

impl Entry {
    fn tree(target: &Path, source: &Path) -> Entry {
        let what = What::Tree { source: source.to_owned(), open: None };
        Entry { target: target.to_owned(), what, writable: false }
    }

    /// The same path, if there is such a thing; a link stays one.
    fn same(path: &str) -> Option<Entry> {
        let path = Path::new(path);
        let found = path.symlink_metadata().ok()?;
        if found.is_symlink() && LIBRARIES.iter().chain(&SYSTEM).any(|one| Path::new(one) == path) {
            let what = What::Link(std::fs::read_link(path).ok()?);
            return Some(Entry { target: path.to_owned(), what, writable: false });
        }
        path.exists().then(|| Entry::tree(path, path))
    }
}

/// What is to be mounted.
pub(crate) struct Sources {
    entries: Vec<Entry>,
    program: PathBuf,
    executable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

/// The new root.
pub(crate) struct Tree {
    pub root: PathBuf,
    pub temporary: OwnedFd,
    /// Inside.
    pub program: PathBuf,
    pub executable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

impl Sources {
    pub fn of(job: &Job) -> Sources {
        let spec = &job.spec;
        let mut entries: Vec<Entry> = DEVICES.into_iter().filter_map(Entry::same).collect();
        let (mut executable, mut writable) = (Vec::new(), vec![PathBuf::from(TEMPORARY)]);
        let shared = spec.shares.iter().any(|share| spec.program.starts_with(&share.path));
        let system = spec.trees == Trees::System;
        let program = match spec.program.file_name() {
            Some(name) if !shared && !system && !job.probe => {
                let program = Path::new(PROGRAM).join(name);
                entries.push(Entry::tree(&program, &spec.program));
                program
            }
            _ => spec.program.clone(),
        };
        executable.push(program.clone());
        let loader = elf::loader(&spec.program);
        let trees: &[&str] = match spec.trees {
            Trees::System => &SYSTEM,
            Trees::Libraries if loader.is_some() || !spec.shares.is_empty() => &LIBRARIES,
            Trees::Libraries => &[],
        };
        match loader {
            Some(loader) if !system => executable.push(loader),
            // Of a script, whose interpreter has a loader; or of any program of the system.
            _ => executable.extend(trees.iter().map(PathBuf::from)),
        }
        entries.extend(trees.iter().chain(&DATA).filter_map(|path| Entry::same(path)));
        // What is not there yet is not shown.
        for share in spec.shares.iter().filter(|share| share.path.exists()) {
            let mut entry = Entry::tree(&share.path, &share.path);
            entry.writable = share.writable;
            entries.push(entry);
            if share.writable { &mut writable } else { &mut executable }.push(share.path.clone());
        }
        let visible = |hidden: &PathBuf| {
            let contains = |entry: &Entry| {
                matches!(entry.what, What::Tree { .. })
                    && hidden.starts_with(&entry.target)
                    && hidden.exists()
            };
            entries.iter().any(contains)
        };
        let hidden: Vec<_> = spec.hidden.iter().filter(|path| visible(path)).cloned().collect();
        let hide = |target| Entry { target, what: What::Nothing, writable: false };
        entries.extend(hidden.into_iter().map(hide));
        entries.push(Entry { target: TEMPORARY.into(), what: What::Temporary, writable: false });
        // What contains others comes first, and of the same path what hides it last.
        entries.sort_by_key(|entry| (entry.target.components().count(), matches!(entry.what, What::Nothing)));
        Sources { entries, program, executable, writable }
    }

    /// Takes hold of everything on this machine. The user of the sandbox may not be able to.
    pub fn open(&mut self) -> Result<(), Failure> {
        for entry in &mut self.entries {
            if let What::Tree { source, open } = &mut entry.what {
                let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                if source.is_dir() {
                    flags |= OpenTreeFlags::AT_RECURSIVE;
                }
                let tree = open_tree(CWD, source.as_path(), flags);
                *open = Some(tree.map_err(|error| cannot("open", source, error.into()))?);
            }
        }
        Ok(())
    }

    /// Mounts all of it below a new root.
    pub fn mount(self, job: &Job) -> Result<Tree, Failure> {
        let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
        let place = place.ok_or_else(|| Failure::of("cannot mount a root", "there is no place for it"))?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let failed = |error: io::Error| cannot("mount the root", place, error);
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .map_err(|error| failed(error.into()))?;
        tmpfs(place, "size=1m,nr_inodes=4096,mode=0755", MsFlags::empty()).map_err(failed)?;
        let root = open_directory(place).map_err(failed)?;
        write_files(&root, job).map_err(|error| cannot("write the files of", place, error))?;
        let null = self.entries.iter().find(|entry| entry.target == Path::new("/dev/null"));
        let null = null.map(|entry| entry.target.clone());
        let mut temporary = None;
        for entry in &self.entries {
            let mounted = match &entry.what {
                What::Tree { open, .. } => attach(&root, &entry.target, open.as_ref()),
                What::Link(to) => link(&root, &entry.target, to),
                What::Nothing => hide(place, &root, &entry.target, null.as_deref()),
                What::Temporary => {
                    own_directory(place, &root, job.spec.limits.temporary).map(|own| temporary = Some(own))
                }
            };
            mounted.map_err(|error| cannot("mount", &entry.target, error))?;
        }
        let writable = |path: &Path| {
            // Of those that contain it, the innermost; what contains others comes first.
            let entry = self.entries.iter().rev().find(|entry| path.starts_with(&entry.target));
            entry.is_some_and(|entry| entry.writable)
        };
        protect(place, writable).map_err(failed)?;
        let temporary = temporary.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let Sources { program, executable, writable, .. } = self;
        Ok(Tree { root: place.to_owned(), temporary, program, executable, writable })
    }
}

fn cannot(what: &str, path: &Path, error: io::Error) -> Failure {
    Failure::of(&format!("cannot {what} {}", path.display()), error)
}

fn tmpfs(at: &Path, options: &str, more: MsFlags) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | more;
    Ok(mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options))?)
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Where something is to be mounted, made if need be. Links lead nowhere but below the new root.
fn make_place(root: &OwnedFd, target: &Path, directory: bool) -> io::Result<OwnedFd> {
    let find = |path: &Path| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    };
    let names: Vec<_> = target.components().filter(|one| matches!(one, Component::Normal(_))).collect();
    let mut so_far = PathBuf::from(".");
    let mut parent = find(&so_far)?;
    for (at, name) in names.iter().enumerate() {
        so_far.push(name);
        parent = match find(&so_far) {
            Ok(found) => found,
            Err(rustix::io::Errno::NOENT) => {
                if directory || at + 1 < names.len() {
                    mkdirat(&parent, name.as_os_str(), Mode::from_raw_mode(0o755))?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    openat(&parent, name.as_os_str(), flags, Mode::from_raw_mode(0o644))?;
                }
                find(&so_far)?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(parent)
}

/// The temporary directory, which is the program's own in memory.
fn own_directory(place: &Path, root: &OwnedFd, size: u64) -> io::Result<OwnedFd> {
    make_place(root, Path::new(TEMPORARY), true)?;
    let own = place.join(TEMPORARY.trim_start_matches('/'));
    tmpfs(&own, &format!("size={size},nr_inodes=16384,mode=0700"), MsFlags::MS_NOEXEC)?;
    open_directory(&own)
}

fn attach(root: &OwnedFd, target: &Path, open: Option<&OwnedFd>) -> io::Result<()> {
    let open = open.ok_or(io::ErrorKind::NotFound)?;
    let place = make_place(root, target, source_is_directory(open)?)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(open.as_fd(), "", place.as_fd(), "", flags)?)
}

fn source_is_directory(open: &OwnedFd) -> io::Result<bool> {
    let found = rustix::fs::fstat(open)?;
    Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir())
}

fn link(root: &OwnedFd, target: &Path, to: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return Ok(()) };
    match symlinkat(to, make_place(root, parent, true)?, name) {
        // In a directory of the system that is there as a whole.
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An empty directory in front of a directory, and an empty device in front of a file.
fn hide(place: &Path, root: &OwnedFd, target: &Path, null: Option<&Path>) -> io::Result<()> {
    let found = make_place(root, target, true)?;
    let below = |path: &Path| place.join(path.strip_prefix("/").unwrap_or(path));
    if source_is_directory(&found)? {
        return tmpfs(&below(target), "size=64k,nr_inodes=64,mode=0755", MsFlags::empty());
    }
    let null = below(null.ok_or(io::ErrorKind::NotFound)?);
    Ok(mount(Some(&null), &below(target), None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

fn write_files(root: &OwnedFd, job: &Job) -> io::Result<()> {
    let nameserver = NAMESERVER.ip();
    let files = [
        ("/etc/resolv.conf", format!("nameserver {nameserver}\n{}", job.resolver)),
        ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 sandbox\n".to_owned()),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        ("/etc/passwd", format!("sandbox:x:{INSIDE}:{INSIDE}:sandbox:{TEMPORARY}:/usr/sbin/nologin\n")),
        ("/etc/group", format!("sandbox:x:{INSIDE}:\n")),
    ];
    for (path, text) in files {
        let made = make_place(root, Path::new(path), false)?;
        drop(made);
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = openat2(root, &path[1..], flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        std::fs::File::from(file).write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Makes everything below the root read-only, without devices and without set-user-ID programs.
fn protect(place: &Path, writable: impl Fn(&Path) -> bool) -> io::Result<()> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<(u32, u32, PathBuf, String)> =
        text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect();
    let root = mounts.iter().map(|(id, _, path, _)| (id, path)).filter(|(_, path)| *path == place);
    let mut below: Vec<u32> = root.map(|(id, _)| *id).max().into_iter().collect();
    // In no order: what is mounted may be older than what it is mounted on.
    loop {
        let more =
            |(id, parent, ..): &&(u32, u32, PathBuf, String)| !below.contains(id) && below.contains(parent);
        let more: Vec<u32> = mounts.iter().filter(more).map(|(id, ..)| *id).collect();
        if more.is_empty() {
            break;
        }
        below.extend(more);
    }
    for (_, _, path, options) in mounts.iter().filter(|(id, ..)| below.contains(id)) {
        let inside = Path::new("/").join(path.strip_prefix(place).unwrap_or(path));
        let keeps = |path: &&str| inside == Path::new(path);
        if DEVICES.iter().any(keeps) || keeps(&TEMPORARY) {
            continue;
        }
        let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let has = |option: &str| options.split(',').any(|one| one == option);
        flags.set(MsFlags::MS_NOEXEC, has("noexec"));
        flags.set(MsFlags::MS_RDONLY, has("ro") || !writable(&inside));
        mount(None::<&str>, path, None::<&str>, flags, None::<&str>)?;
    }
    Ok(())
}

/// The identity of a mount, that of the mount it is on, where it is, and its options.
fn parse_mount(line: &[u8]) -> Option<(u32, u32, PathBuf, String)> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let number = |at: usize| std::str::from_utf8(fields.get(at)?).ok()?.parse().ok();
    let path = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.get(4)?)));
    Some((number(0)?, number(1)?, path, String::from_utf8_lossy(fields.get(5)?).into_owned()))
}

/// Blanks are written as octal numbers.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn mounts_are_parsed() {
        let line = br"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let (id, parent, path, options) = parse_mount(line).unwrap();
        assert_eq!((id, parent, path.as_os_str().as_bytes()), (36, 35, &b"/mnt two"[..]));
        assert_eq!(options, "rw,noatime");
        assert!(parse_mount(b"").is_none());
    }
}
