//! Ordinary starts: a program of its own for the pack.

use crate::event_loop::{Source, Token};
use crate::isolation::ChildFds;
use crate::rows::process::Process;
use crate::rows::stream::LineStream;
use crate::shard::{Owner, Shard};
use crate::system;
use crate::values::{numbers, strings};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Both ends of everything a program is connected with.
pub(crate) struct Connections {
    socket: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    theirs: [OwnedFd; 4],
}

impl Connections {
    /// A socket, and a pipe for each of the three standard streams.
    pub(crate) fn new() -> io::Result<Self> {
        let (socket, their_socket) = system::socket_pair()?;
        let (their_stdin, stdin) = system::pipe()?;
        let (stdout, their_stdout) = system::pipe()?;
        let (stderr, their_stderr) = system::pipe()?;
        system::set_nonblocking(stderr.as_raw_fd())?;
        Ok(Self { socket, stdin, stdout, stderr, theirs: [their_stdin, their_stdout, their_stderr, their_socket] })
    }

    /// Makes the pipes belong to the program's user.
    pub(crate) fn give(&self, uid: u32, gid: u32) {
        for pipe in &self.theirs[..3] {
            // Without it only opening /dev/stderr by path fails.
            let _ = system::give(pipe.as_raw_fd(), uid, gid);
        }
    }

    /// The program's descriptors.
    pub(crate) fn child_fds(&self) -> ChildFds {
        let [stdin, stdout, stderr, channel] = &self.theirs;
        ChildFds {
            stdin: stdin.as_raw_fd(),
            stdout: stdout.as_raw_fd(),
            stderr: stderr.as_raw_fd(),
            channel: channel.as_raw_fd(),
        }
    }

    /// Our side of a program that runs; its own descriptors are closed here.
    pub(crate) fn into_process(self, pid: i32) -> io::Result<Process> {
        let pipes = LineStream::pipes(self.stdout, self.stdin)?;
        let mut process = Process::new(LineStream::socket(self.socket), Some(pipes), self.stderr);
        process.pid = Some(pid);
        Ok(process)
    }
}

impl Shard {
    /// Starts a pack's program and says hello on both of its streams.
    pub(crate) fn spawn(&mut self, number: usize) -> io::Result<()> {
        let connections = Connections::new()?;
        let identity = &self.packs[number].identity;
        if self.settings.isolated {
            connections.give(identity.uid, identity.gid);
        }
        let pid = self.isolation.spawn_environment(&self.program, identity, &connections.child_fds())?;
        let mut process = connections.into_process(pid)?;
        let hello = self.hello_line(number);
        let pack = &mut self.packs[number];
        pack.last_id = 1;
        let token = |source| Token::of_pack(source, number, pack.epoch);
        self.poller.add_edge(process.stream.reading(), token(Source::Pack))?;
        if let Some(pipes) = &mut process.pipes {
            self.poller.add_edge(pipes.reading(), token(Source::PackPipes))?;
            // A program that has closed its input may still answer on the socket.
            let _ = pipes.send(&hello);
        }
        if let Some(stderr) = &process.stderr {
            self.poller.add_level(stderr.as_raw_fd(), token(Source::PackLog))?;
        }
        let _ = process.stream.send(&hello);
        let started_us = process.started_us;
        pack.process = Some(process);
        self.own(pid, Owner::Pack(number), started_us);
        Ok(())
    }

    /// The first line to a program that becomes a pack.
    pub(crate) fn hello_line(&self, number: usize) -> Vec<u8> {
        let pack = &self.packs[number];
        let mut line = Vec::with_capacity(256);
        line.extend_from_slice(br#"{"id":1,"op":"hello","protocol":1,"index":"#);
        numbers::write_u64(&mut line, u64::from(self.rows[pack.rows.start].index));
        line.extend_from_slice(b",\"n\":");
        numbers::write_u64(&mut line, u64::from(self.settings.n));
        line.extend_from_slice(b",\"rows\":");
        numbers::write_u64(&mut line, pack.rows.len() as u64);
        if self.rows_sharing().is_some() {
            line.extend_from_slice(b",\"packed\":true");
        }
        line.extend_from_slice(b",\"workspace\":");
        if self.settings.isolated {
            line.extend_from_slice(b"\"/workspace\"");
        } else {
            strings::write(&mut line, &pack.identity.workspace.join("workspace").to_string_lossy());
        }
        self.config.write(pack.rows.clone(), &mut line);
        line.extend_from_slice(b"}\n");
        line
    }
}
