//! Starts the template and ordinary environments, each with its identity in place before exec.

use std::io;

use super::launch::{ChildFds, Launch, Program, Step};
use super::{Identity, Isolation, limits};

impl Isolation {
    /// Starts the template: its uid, the three capabilities its forks need, the second filter, exec.
    /// Returns its pid once the program runs.
    pub fn spawn_template(&self, program: &Program, fds: &ChildFds) -> io::Result<i32> {
        let launch = Launch::new(program, fds, &[])?;
        #[cfg(target_os = "linux")]
        if let Some(filters) = &self.filters {
            let uid = self.settings.template_uid;
            let limits = self.template_limits();
            let groups = self.template_groups()?;
            return launch.start(|| child::become_template(uid, &limits, &filters.forking, &groups));
        }
        launch.start(child::keep_company)
    }

    /// Starts an ordinary environment with the full identity of its row and no capability at all.
    /// Returns its pid once the program runs. `HOME` and `TMPDIR` point into the workspace.
    pub fn spawn_environment(&self, program: &Program, id: &Identity, fds: &ChildFds) -> io::Result<i32> {
        let (home, temporary) = self.homes(id);
        let launch = Launch::new(program, fds, &[("HOME", home), ("TMPDIR", temporary)])?;
        let pid = self.start_environment(&launch, id)?;
        self.adopt(id, pid);
        Ok(pid)
    }

    fn start_environment(&self, launch: &Launch, id: &Identity) -> io::Result<i32> {
        #[cfg(target_os = "linux")]
        if let Some(filters) = &self.filters {
            let row = child::Row::of(id)?;
            return launch.start(|| row.become_row(id, &filters.plain));
        }
        launch.start(|| {
            limits::apply(&id.limits).map_err(Step::Limits.failed())?;
            child::keep_company()
        })
    }

    fn homes(&self, id: &Identity) -> (String, String) {
        if self.settings.isolated {
            return ("/workspace".to_owned(), "/tmp".to_owned());
        }
        let inside = |folder: &str| id.workspace.join(folder).to_string_lossy().into_owned();
        (inside("workspace"), inside("tmp"))
    }

    #[cfg(target_os = "linux")]
    fn template_groups(&self) -> io::Result<Vec<std::ffi::CString>> {
        use super::{launch::c_string, own_groups};

        if !self.settings.own_groups {
            return Ok(Vec::new());
        }
        let entries = own_groups::template_entries(&self.settings);
        entries.into_iter().map(|path| c_string(path.to_string_lossy().into_owned())).collect()
    }

    #[cfg(target_os = "linux")]
    fn template_limits(&self) -> super::Limits {
        super::Limits {
            address_space_bytes: None,
            processes: Some(self.template_processes()),
            descriptors: self.identity(0, 0, 1).limits.descriptors,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod child {
    use crate::isolation::launch::Failure;

    pub(super) fn keep_company() -> Result<(), Failure> {
        Ok(())
    }
}

/// Runs between fork and exec: no allocation.
#[cfg(target_os = "linux")]
mod child {
    use std::ffi::{CStr, CString};
    use std::io;
    use std::ptr;

    use seccompiler::BpfProgram;

    use crate::isolation::identity::ENVIRONMENT_OOM_SCORE;
    use crate::isolation::launch::{Failure, Step, c_string};
    use crate::isolation::mounts::PrivateMounts;
    use crate::isolation::sys::check;
    use crate::isolation::{Identity, Limits, capabilities, filter, limits};

    /// Unisolated: the process dies with the agent.
    pub(super) fn keep_company() -> Result<(), Failure> {
        // SAFETY: takes numbers only.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
            .map(drop)
            .map_err(Step::Session.failed())
    }

    pub(super) fn become_template(
        uid: u32,
        limits: &Limits,
        filters: &[BpfProgram],
        groups: &[CString],
    ) -> Result<(), Failure> {
        // SAFETY: takes a number only.
        unsafe { libc::umask(0o022) };
        enter(groups).map_err(Step::Memory.failed())?;
        limits::apply(limits).map_err(Step::Limits.failed())?;
        capabilities::keep_across_setuid().map_err(Step::Capabilities.failed())?;
        take_ids(uid, uid).map_err(Step::Identity.failed())?;
        capabilities::become_template().map_err(Step::Capabilities.failed())?;
        filter::load(filters).map_err(Step::Filter.failed())
    }

    /// What a row's child writes and mounts, as C strings.
    pub(super) struct Row {
        groups: Vec<CString>,
        mounts: PrivateMounts,
        oom_score: CString,
    }

    impl Row {
        pub(super) fn of(id: &Identity) -> io::Result<Self> {
            let groups = id.memory.iter().chain(&id.pids);
            Ok(Self {
                groups: groups
                    .map(|path| c_string(format!("{}/cgroup.procs", path.display())))
                    .collect::<Result<_, _>>()?,
                mounts: PrivateMounts::of(id)?,
                oom_score: c_string(ENVIRONMENT_OOM_SCORE.to_string())?,
            })
        }

        pub(super) fn become_row(&self, id: &Identity, filters: &[BpfProgram]) -> Result<(), Failure> {
            // SAFETY: takes a number only.
            unsafe { libc::umask(0o022) };
            // Before it can have a child that would keep the agent's score.
            let _ = write(c"/proc/self/oom_score_adj", &self.oom_score);
            enter(&self.groups).map_err(Step::Memory.failed())?;
            self.mounts.enter()?;
            limits::apply(&id.limits).map_err(Step::Limits.failed())?;
            capabilities::forbid_all().map_err(Step::Capabilities.failed())?;
            take_ids(id.uid, id.gid).map_err(Step::Identity.failed())?;
            capabilities::drop_all().map_err(Step::Capabilities.failed())?;
            filter::load(filters).map_err(Step::Filter.failed())
        }
    }

    fn enter(groups: &[CString]) -> io::Result<()> {
        groups.iter().try_for_each(|path| write(path, c"0"))
    }

    fn write(path: &CStr, text: &CStr) -> io::Result<()> {
        // SAFETY: path and text outlive the calls, and the descriptor is ours.
        unsafe {
            let fd = check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
            let written = libc::write(fd, text.as_ptr().cast(), text.count_bytes());
            let error = io::Error::last_os_error();
            libc::close(fd);
            if written >= 0 { Ok(()) } else { Err(error) }
        }
    }

    fn take_ids(uid: u32, gid: u32) -> io::Result<()> {
        // SAFETY: no group list is read as its length is 0; the others take numbers only.
        unsafe {
            check(libc::setgroups(0, ptr::null()))?;
            check(libc::setresgid(gid, gid, gid))?;
            check(libc::setresuid(uid, uid, uid))?;
        }
        Ok(())
    }
}
