//! Processes that ended.

use super::{Owner, Shard};
use crate::isolation::{Exit, reap};
use crate::rows::pack::Asked;
use crate::system;
use std::os::fd::RawFd;

const STRAYS_KEPT: usize = 1024;

impl Shard {
    /// A child of the agent has ended.
    pub(crate) fn children_ended(&mut self, signals: RawFd) {
        let mut information = [0; 1024];
        // What it says is less than what reaping finds; it only has to be emptied.
        while system::read(signals, &mut information).is_ok() {}
        self.collect_exits();
        self.hurry_cleaning();
    }

    /// Takes in all exits there are.
    pub(crate) fn collect_exits(&mut self) {
        for (pid, exit) in reap() {
            match self.owners.remove(&pid) {
                Some(owner) => self.exited(owner, exit),
                None => {
                    if self.strays.len() == STRAYS_KEPT {
                        self.strays.pop_front();
                    }
                    self.strays.push_back((pid, exit, system::now_us()));
                }
            }
        }
    }

    /// Notes whose process a pid is, and since when: a fork may have ended before its pid was known.
    pub(crate) fn own(&mut self, pid: i32, owner: Owner, started_us: u64) {
        let stray = self.strays.iter().position(|(ended, _, at_us)| *ended == pid && *at_us >= started_us);
        match stray.and_then(|position| self.strays.remove(position)) {
            Some((_, exit, _)) => self.exited(owner, exit),
            None => drop(self.owners.insert(pid, owner)),
        }
    }

    fn exited(&mut self, owner: Owner, exit: Exit) {
        match owner {
            Owner::Template => self.template_exited(exit),
            Owner::Pack(number) => self.pack_exited(number, exit),
            Owner::Copy(key) => self.copy_exited(key, exit),
        }
    }

    /// What the process wrote before it ended still counts.
    fn pack_exited(&mut self, number: usize, exit: Exit) {
        let epoch = self.packs[number].epoch;
        let Some(process) = &mut self.packs[number].process else {
            return;
        };
        process.exit = Some(exit);
        const READS: usize = 64;
        for pipes in [false, true] {
            for _ in 0..READS {
                if self.packs[number].epoch != epoch || !self.read_pack(number, pipes) {
                    break;
                }
            }
        }
        let pack = &mut self.packs[number];
        if pack.epoch != epoch || pack.process.is_none() {
            return;
        }
        if pack.asked == Asked::Close || self.closing.is_some() {
            return self.pack_closed(number);
        }
        self.crashed(number);
    }
}
