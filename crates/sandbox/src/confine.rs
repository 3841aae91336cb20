//! What a process gives up for ever: descriptors, capabilities, system calls, files, resources.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::spec::Limits;

/// Descriptors that are looked at where `/proc` does not say which there are.
const USUAL_DESCRIPTORS: i32 = 1_024;

/// Closes what whoever started the server left open.
pub(crate) fn close_inherited() {
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| {
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<i32>>()
    });
    for descriptor in listed.unwrap_or_else(|_| (0..USUAL_DESCRIPTORS).collect()) {
        if descriptor > 2 {
            // The one of the list itself is closed already.
            let _ = nix::unistd::close(descriptor);
        }
    }
}

/// All of them, for this process and all that it executes.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    use CapabilitiesSecureBits as Bits;
    let bits = Bits::NO_ROOT
        | Bits::NO_ROOT_LOCKED
        | Bits::NO_SETUID_FIXUP
        | Bits::NO_SETUID_FIXUP_LOCKED
        | Bits::KEEP_CAPS_LOCKED
        | Bits::NO_CAP_AMBIENT_RAISE
        | Bits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(bits)?;
    clear_ambient_capability_set()?;
    for one in (0..64).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        // The kernel knows no more.
        let Ok(has) = capability_is_in_bounding_set(one) else { break };
        if has {
            remove_capability_from_bounding_set(one)?;
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

pub(crate) fn limit(limits: &Limits, own_user: bool) -> io::Result<()> {
    let mut all = vec![
        (Resource::Data, limits.memory),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        (Resource::Core, 0),
    ];
    // Otherwise all other processes of the user count as well.
    all.extend(own_user.then_some((Resource::Nproc, limits.processes)));
    for (resource, most) in all {
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Files may be read, and written or executed only where it is said. False if the kernel does not have it.
pub(crate) fn landlock(executable: &[PathBuf], writable: &[PathBuf]) -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V5;
    let all = AccessFs::from_all(abi);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let mut rules = Ruleset::default().handle_access(all)?.create()?;
    let root: [(&Path, BitFlags<AccessFs>); 2] =
        [(Path::new("/"), read), (Path::new("/dev"), read | AccessFs::WriteFile)];
    let executable = executable.iter().map(|path| (path.as_path(), read | AccessFs::Execute));
    let writable = writable.iter().map(|path| (path.as_path(), write));
    for (path, access) in root.into_iter().chain(executable).chain(writable) {
        // What is not there need not be allowed.
        let Ok(file) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
        rules = rules.add_rule(PathBeneath::new(file, access))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// System calls that no provider needs and that have been ways out of sandboxes.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// Sockets of other families speak to parts of the kernel that providers have no business with.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The number under which the x32 programs of x86-64 make the same call.
const X32: i64 = 0x4000_0000;

/// Denied calls answer `EPERM`. Calls of another architecture end the process.
pub(crate) fn filter_calls() -> Result<(), String> {
    let text = |error: seccompiler::BackendError| error.to_string();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(text)?;
    let condition = |argument: u8, operator: SeccompCmpOp, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(text)
    };
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(text);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let namespace = |flag: i32| SeccompCmpOp::MaskedEq(u64::from(flag.cast_unsigned()));
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let clones = flags.map(|flag| rule(vec![condition(0, namespace(flag), flag)?]));
    rules.insert(libc::SYS_clone, clones.into_iter().collect::<Result<_, _>>()?);
    let others = FAMILIES.map(|family| condition(0, SeccompCmpOp::Ne, family));
    rules.insert(libc::SYS_socket, vec![rule(others.into_iter().collect::<Result<_, _>>()?)?]);
    // Types into the terminal of whoever started the server.
    rules.insert(libc::SYS_ioctl, vec![rule(vec![condition(1, SeccompCmpOp::Eq, 0x5412)?])?]);
    if cfg!(target_arch = "x86_64") {
        rules.extend(rules.clone().into_iter().map(|(call, rules)| (call | X32, rules)));
    }
    // Its flags are in memory, where no filter sees them; programs then use the older call.
    let modern = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, code) in [(rules, libc::EPERM), (modern, libc::ENOSYS)] {
        let action = SeccompAction::Errno(code.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).map_err(text)?;
        let program: seccompiler::BpfProgram = filter.try_into().map_err(text)?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}
