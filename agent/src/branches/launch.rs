//! Makes what a copy needs before its source is asked to fork: an identity, a copy of the files, a channel.

use super::phase::{Site, Way};
use crate::channel::request::BranchKind;
use crate::isolation::{CopyFault, Files, Identity};
use crate::rows::pack::{Asked, Life};
use crate::rows::process::Process;
use crate::rows::stream::LineStream;
use crate::shard::Shard;
use crate::starts::template::ForkLine;
use crate::system;
use serde_json::{Map, Value, json};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Copies that have not said hello.
const COPIES_AT_ONCE: usize = 64;
const MOST_FILES_BYTES: u64 = 1 << 30;
const LAUNCH_TURN_US: u64 = 20_000;

impl Shard {
    /// Asks sources for as many copies as may be made at once. Large workspaces take long to copy: between them the loop
    /// has its turn.
    pub(super) fn launch_copies(&mut self) {
        let turn_ends_us = system::now_us() + LAUNCH_TURN_US;
        while let Some(pair) = self.next_to_launch() {
            if system::now_us() > turn_ends_us {
                self.note_deadline(turn_ends_us);
                break;
            }
            if let Err(blocker) = self.launch(pair)
                && let Some(phase) = &mut self.branches.phase
            {
                phase.origins[phase.pairs[pair].origin].block(blocker);
            }
        }
        self.send_made_forks();
    }

    fn next_to_launch(&self) -> Option<usize> {
        let phase = self.branches.phase.as_ref()?;
        if phase.starting().count() >= COPIES_AT_ONCE {
            return None;
        }
        // All states have one memory group, which can be lent to one source at a time.
        let shared = phase.kind == BranchKind::Save && self.settings.states_memory.is_some();
        let borrower = phase.starting().next().filter(|_| shared).map(|pair| pair.origin);
        phase.pairs.iter().position(|pair| {
            let origin = &phase.origins[pair.origin];
            let willing = origin.way == Way::Fork && origin.blockers.is_empty() && !origin.ended;
            willing && pair.asked.is_none() && borrower.is_none_or(|borrower| borrower == pair.origin)
        })
    }

    fn launch(&mut self, number: usize) -> Result<(), Value> {
        let Some(phase) = &self.branches.phase else {
            return Ok(());
        };
        let pair = &phase.pairs[number];
        let origin = &phase.origins[pair.origin];
        let (site, target) = (origin.site, pair.target);
        let row = origin.snapshot.as_ref().map_or(0, |snapshot| snapshot.row);
        let (identity, index) = match target {
            Site::Row(local) => {
                let row = &self.rows[local];
                (self.isolation.other_identity(&self.packs[row.pack].identity), row.index)
            }
            Site::State(slot) => (self.isolation.state_identity(slot, row), row),
        };
        if let Site::Row(local) = target {
            self.give_up_start(self.rows[local].pack);
        }
        let copied = self.copy_workspace(site, &identity);
        let launched = copied.and_then(|()| self.ask_for_copy(number, site, &identity, index).map_err(reason));
        if launched.is_err() {
            let _ = self.isolation.allow_memory_entry(&identity, None);
            let _ = self.isolation.remove_workspace(&identity);
        }
        launched
    }

    /// A replacement on its way would enter the memory group that is to be lent: it is started again afterwards.
    fn give_up_start(&mut self, number: usize) {
        if self.packs[number].life == Life::Starting {
            self.discard_process(number);
            self.queue_start(number, true);
        }
    }

    fn copy_workspace(&mut self, site: Site, identity: &Identity) -> Result<(), Value> {
        self.clear_remains(identity).map_err(reason)?;
        self.isolation.create_workspace(identity).map_err(reason)?;
        let Some(files) = self.process_of(site).and_then(|process| process.files.as_ref()) else {
            return Err(json!({"reason": "its files were not held open when it started"}));
        };
        let limit_bytes = self.settings.branch_workspace_bytes;
        let limit_bytes = limit_bytes.unwrap_or(self.settings.workspace_bytes.min(MOST_FILES_BYTES));
        self.isolation.copy_files(files, identity, limit_bytes).map_err(|fault| match fault {
            CopyFault::TooLarge { bytes, limit_bytes } => {
                json!({"workspace": {"bytes": bytes, "limit_bytes": limit_bytes}})
            }
            CopyFault::Failed(error) => json!({"workspace": {"error": error.to_string()}}),
        })
    }

    fn ask_for_copy(&mut self, number: usize, site: Site, identity: &Identity, index: u32) -> io::Result<()> {
        let gone = || io::Error::other("its process is gone");
        let (socket, channel) = system::socket_pair()?;
        let (stderr, their_stderr) = system::pipe()?;
        system::set_nonblocking(stderr.as_raw_fd())?;
        let mut descriptors = vec![channel, their_stderr];
        if self.settings.isolated {
            let _ = system::give(descriptors[1].as_raw_fd(), identity.uid, identity.gid);
            descriptors.extend(self.detached(identity)?);
        }
        self.isolation.allow_memory_entry(identity, Some(self.identity_of(site).ok_or_else(gone)?))?;
        let source = self.process_of(site).ok_or_else(gone)?;
        let process = Process {
            takes_raw: source.takes_raw,
            keeps_state: source.keeps_state,
            forks_live: true,
            files: Some(self.isolation.open_files(identity)?),
            oom_kills_before: self.isolation.oom_kills(identity),
            ..Process::new(LineStream::socket(socket), None, stderr)
        };
        let key = self.add_copy(identity.clone(), process, self.is_packed_source(site))?;
        let (Some(id), Some(phase)) = (self.next_request(site, Asked::Fork), &mut self.branches.phase) else {
            self.discard_copy(key);
            return Err(gone());
        };
        let pair = &mut phase.pairs[number];
        (pair.asked, pair.copy) = (Some(id), Some(key));
        let (origin, reseed) = (pair.origin, pair.reseed);
        phase.origins[origin].unanswered += 1;
        let bytes = copy_line(id, index, reseed, self.isolation.fork_request(identity));
        phase.origins[origin].unsent.push_back(ForkLine { bytes, sent: 0, descriptors });
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn detached(&self, identity: &Identity) -> io::Result<[OwnedFd; 3]> {
        self.isolation.detached_workspace(identity)
    }

    #[cfg(not(target_os = "linux"))]
    fn detached(&self, _: &Identity) -> io::Result<[OwnedFd; 3]> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn is_packed_source(&self, site: Site) -> bool {
        match site {
            Site::Row(local) => self.is_packed(self.rows[local].pack),
            Site::State(slot) => {
                let copied = self.state_key(slot).and_then(|key| self.branches.copies.get(&key));
                copied.is_some_and(|copied| copied.packed)
            }
        }
    }

    /// Holds the folders of a process that starts open, if it may be copied: only it will have them mounted.
    pub(crate) fn hold_files(&self, number: usize) -> Option<Files> {
        let pack = &self.packs[number];
        let copied = self.settings.branching && self.starts.by_fork && !pack.is_shared();
        copied.then(|| self.isolation.open_files(&pack.identity).ok()).flatten()
    }

    /// The memory group of a copy is the template's to enter again.
    pub(super) fn lend_back(&self, key: u32, target: Site) {
        // That of the states is lent until all copies are made.
        if let (Site::Row(_), Some(copied)) = (target, self.branches.copies.get(&key)) {
            let _ = self.isolation.allow_memory_entry(&copied.identity, None);
        }
    }
}

fn copy_line(id: u64, index: u32, reseed: Option<u64>, identity: Map<String, Value>) -> Vec<u8> {
    let mut message = Map::new();
    message.insert("id".into(), id.into());
    message.insert("op".into(), "fork".into());
    message.insert("live".into(), true.into());
    message.insert("index".into(), index.into());
    message.extend(identity);
    message.insert("reseed".into(), reseed.into());
    // Its end is written when it is sent, and it is known whether more follow.
    let mut line = Value::Object(message).to_string().into_bytes();
    line.pop();
    line
}

fn reason(error: io::Error) -> Value {
    json!({"reason": error.to_string()})
}
