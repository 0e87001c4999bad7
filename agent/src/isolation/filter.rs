//! The second system call filter, stacked on the container's. The container must allow the agent to
//! mount and unshare; a template and its forks need exactly three forms of that, a spawned program none.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiled once; loading allocates nothing.
pub(super) struct Filters {
    /// For a template and everything forked from it.
    pub(super) forking: Vec<BpfProgram>,
    /// For a program that holds no capability.
    pub(super) plain: Vec<BpfProgram>,
}

impl Filters {
    pub(super) fn compile(base_uid: u32) -> io::Result<Self> {
        let absent = program(absent_calls(), libc::ENOSYS)?;
        let stack = |refused: Rules| -> io::Result<Vec<BpfProgram>> {
            let mut programs = vec![absent.clone(), program(refused, libc::EPERM)?];
            programs.extend(other_numbering());
            Ok(programs)
        };
        Ok(Self { forking: stack(refused_while_forking(base_uid)?)?, plain: stack(refused_always()?)? })
    }
}

/// Loads the programs for good; sets no_new_privs, which an unprivileged process needs for it.
pub(super) fn load(programs: &[BpfProgram]) -> io::Result<()> {
    for program in programs {
        seccompiler::apply_filter(program).map_err(|_| io::Error::last_os_error())?;
    }
    Ok(())
}

/// Linux 6.15; libc has no name for it yet.
const SYS_OPEN_TREE_ATTR: i64 = 467;

const NAMESPACE_FLAGS: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    // CLONE_NEWTIME, for unshare only; in clone the same bit is part of the exit signal.
    0x80,
];

/// The new mount interface could do everything the rules on `mount` forbid, and clone3 hides its
/// flags from a filter: libraries fall back to the old calls on ENOSYS.
fn absent_calls() -> Rules {
    let numbers = [
        libc::SYS_clone3,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_open_tree,
        SYS_OPEN_TREE_ATTR,
        libc::SYS_mount_setattr,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
    ];
    numbers.into_iter().map(|number| (number, vec![])).collect()
}

fn refused_always() -> io::Result<Rules> {
    let mut rules: Rules =
        [libc::SYS_mount, libc::SYS_umount2, libc::SYS_move_mount, libc::SYS_pivot_root, libc::SYS_chroot]
            .into_iter()
            .map(|number| (number, vec![]))
            .collect();
    rules.insert(libc::SYS_unshare, namespace_rules(&NAMESPACE_FLAGS)?);
    rules.insert(libc::SYS_clone, namespace_rules(&NAMESPACE_FLAGS[..7])?);
    Ok(rules)
}

fn refused_while_forking(base_uid: u32) -> io::Result<Rules> {
    let bind = libc::MS_BIND;
    let seal = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_NOSUID | libc::MS_NODEV;
    let detach = libc::MNT_DETACH as u64;
    let mut rules = refused_always()?;
    rules.insert(libc::SYS_mount, vec![rule([differs(3, bind)?, differs(3, seal)?])?]);
    rules.insert(libc::SYS_umount2, vec![rule([differs(1, detach)?])?]);
    rules.insert(libc::SYS_unshare, vec![rule([differs(0, libc::CLONE_NEWNS as u64)?])?]);
    // A fork of a live environment receives its workspace as a detached mount, and may only attach
    // that; open_tree, which could make others, is absent.
    rules.insert(libc::SYS_move_mount, vec![rule([differs(4, MOVE_MOUNT_F_EMPTY_PATH)?])?]);
    rules.insert(libc::SYS_setgroups, vec![rule([differs(0, 0)?])?]);
    for (number, arguments) in IDENTITY_CALLS {
        let below = (0..*arguments).map(|index| rule([below(index, base_uid)?])).collect::<io::Result<_>>()?;
        rules.insert(*number, below);
    }
    Ok(rules)
}

const MOVE_MOUNT_F_EMPTY_PATH: u64 = 0x4;

/// Calls that take ids, and how many. With SETUID a row's own code could otherwise become the
/// container's root, the template or the killer; -1 (no change) is above every base.
const IDENTITY_CALLS: &[(i64, u8)] = &[
    (libc::SYS_setuid, 1),
    (libc::SYS_setgid, 1),
    (libc::SYS_setreuid, 2),
    (libc::SYS_setregid, 2),
    (libc::SYS_setresuid, 3),
    (libc::SYS_setresgid, 3),
    (libc::SYS_setfsuid, 1),
    (libc::SYS_setfsgid, 1),
];

fn namespace_rules(flags: &[libc::c_int]) -> io::Result<Vec<SeccompRule>> {
    flags
        .iter()
        .map(|&flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule([condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        })
        .collect()
}

fn differs(argument: u8, expected: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, expected)
}

/// Ids are 32 bits wide, whatever the upper half of the register holds.
fn below(argument: u8, limit: u32) -> io::Result<SeccompCondition> {
    let length = SeccompCmpArgLen::Dword;
    SeccompCondition::new(argument, length, SeccompCmpOp::Lt, limit.into()).map_err(invalid)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value).map_err(invalid)
}

fn rule<const COUNT: usize>(conditions: [SeccompCondition; COUNT]) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions.into()).map_err(invalid)
}

fn program(rules: Rules, errno: libc::c_int) -> io::Result<BpfProgram> {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into().map_err(invalid)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(invalid)
}

/// On x86-64 the x32 numbering reaches the same calls under numbers no rule names.
fn other_numbering() -> Option<BpfProgram> {
    const X32_BIT: u32 = 0x4000_0000;
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    cfg!(target_arch = "x86_64").then(|| {
        vec![
            step(LOAD_WORD, 0, 0, 0),
            step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, X32_BIT),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ]
    })
}

fn invalid(error: seccompiler::BackendError) -> io::Error {
    io::Error::other(format!("cannot compile the system call filter: {error}"))
}
