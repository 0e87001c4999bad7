//! Forks: one line to the template with two descriptors, one hello from the child.

use crate::event_loop::{Source, Token};
use crate::isolation::send_descriptors;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::process::Process;
use crate::rows::stream::LineStream;
use crate::shard::{Owner, Shard};
use crate::starts::template::{ForkLine, Forking};
use crate::system;
use std::io;
use std::os::fd::AsRawFd;

impl Shard {
    /// Asks the template for a fork; several may be on their way.
    pub(crate) fn begin_fork(&mut self, number: usize) -> io::Result<()> {
        let (socket, channel) = system::socket_pair()?;
        let (stderr, their_stderr) = system::pipe()?;
        system::set_nonblocking(stderr.as_raw_fd())?;
        let pack = &self.packs[number];
        if self.settings.isolated {
            let _ = system::give(their_stderr.as_raw_fd(), pack.identity.uid, pack.identity.gid);
        }
        self.poller.add_edge(socket.as_raw_fd(), Token::of_pack(Source::Pack, number, pack.epoch))?;
        self.poller.add_level(stderr.as_raw_fd(), Token::of_pack(Source::PackLog, number, pack.epoch))?;
        self.template.last_id += 1;
        let forking = Forking { id: self.template.last_id, number, epoch: pack.epoch, deadline_us: pack.deadline_us };
        let line = self.fork_line(number, forking.id);
        self.packs[number].process = Some(Process::new(LineStream::socket(socket), None, stderr));
        self.template.unanswered.push_back(forking);
        self.template.unsent.push_back(ForkLine { bytes: line, sent: 0, descriptors: vec![channel, their_stderr] });
        self.send_forks();
        Ok(())
    }

    fn fork_line(&self, number: usize, id: u64) -> Vec<u8> {
        let pack = &self.packs[number];
        let mut message = serde_json::Map::new();
        message.insert("id".into(), id.into());
        message.insert("op".into(), "fork".into());
        message.insert("index".into(), self.rows[pack.rows.start].index.into());
        message.insert("rows".into(), pack.rows.len().into());
        if self.rows_sharing().is_some() {
            message.insert("packed".into(), true.into());
        }
        message.extend(self.isolation.fork_request(&pack.identity));
        message.insert("reseed".into(), serde_json::Value::Null);
        let mut line = serde_json::Value::Object(message).to_string().into_bytes();
        if self.config.is_per_row() {
            line.pop();
            self.config.write(pack.rows.clone(), &mut line);
            line.push(b'}');
        }
        line.push(b'\n');
        line
    }

    /// Sends fork lines as far as the template's socket takes them.
    pub(crate) fn send_forks(&mut self) {
        let Some(process) = &self.template.process else {
            return;
        };
        let socket = process.stream.writing();
        let mut blocked = false;
        while let Some(line) = self.template.unsent.front_mut() {
            match line.send(socket) {
                Ok(true) => drop(self.template.unsent.pop_front()),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    blocked = true;
                    break;
                }
                // The end of its stream follows, and with it the reason.
                Err(_) => break,
            }
        }
        if blocked != self.template.awaits_room {
            self.template.awaits_room = blocked;
            let _ = self.poller.change_edge(socket, Token::of(Source::Template), blocked);
        }
    }

    /// The template has answered a fork request.
    pub(crate) fn fork_answered(&mut self, id: u64, answer: Result<i32, RowError>) {
        let Some(position) = self.template.unanswered.iter().position(|forking| forking.id == id) else {
            return;
        };
        let Some(forking) = self.template.unanswered.remove(position) else {
            return;
        };
        if self.packs[forking.number].epoch != forking.epoch || self.packs[forking.number].process.is_none() {
            return;
        }
        match answer {
            Ok(pid) => self.learn_pid(forking.number, pid),
            Err(error) => self.start_failed(forking.number, error),
        }
    }

    /// The pid of a fork, from the template or from the child itself; both have to say the same.
    pub(crate) fn learn_pid(&mut self, number: usize, pid: i32) {
        let Some(process) = &mut self.packs[number].process else {
            return;
        };
        match process.pid {
            None if pid > 1 && !self.owners.contains_key(&pid) => {
                process.pid = Some(pid);
                let started_us = process.started_us;
                self.isolation.adopt(&self.packs[number].identity, pid);
                self.own(pid, Owner::Pack(number), started_us);
            }
            Some(known) if known == pid => {}
            known => {
                let message = format!("a fork gave pid {pid}, expected {known:?} or a new one");
                self.fail_pack(number, RowError::new(ErrorKind::Protocol, "hello", message));
            }
        }
    }
}

impl ForkLine {
    /// Sends once; true when all of the line is sent. The descriptors go with its first byte.
    pub(crate) fn send(&mut self, socket: i32) -> io::Result<bool> {
        let rest = &self.bytes[self.sent..];
        let attached: Vec<i32> = self.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        self.sent += match attached.is_empty() {
            false => send_descriptors(socket, rest, &attached)?,
            true => system::write(socket, rest)?,
        };
        self.descriptors.clear();
        Ok(self.sent == self.bytes.len())
    }
}
