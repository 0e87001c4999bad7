//! The keeper's loop: collects what ends, follows orders, ends last.

use super::{News, Order, Specification, launch, tree};
use crate::machine::clock;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

struct Keeper {
    control: UnixStream,
    buffer: Vec<u8>,
    leader: i32,
    leader_ended: bool,
    /// The agent has closed its end.
    alone: bool,
    kill_at: Option<Instant>,
    /// Between two rounds of KILL.
    pause: Duration,
}

/// Starts the program and stays until nothing of it is left. Returns the exit code.
pub fn run(control: OwnedFd, specification: &Specification) -> i32 {
    let Ok(children) = prepare(&control) else { return 71 };
    let mut control = UnixStream::from(control);
    let leader = match launch::launch(specification) {
        Ok(pid) => pid,
        Err(failure) => {
            tell(&mut control, &News::Failed { errno: failure.errno, what: failure.what.to_owned() });
            return 0;
        }
    };
    let _ = launch::let_go_of_streams();
    tell(&mut control, &News::Started { pid: leader });
    let mut keeper = Keeper {
        control,
        buffer: Vec::new(),
        leader,
        leader_ended: false,
        alone: false,
        kill_at: None,
        pause: Duration::from_millis(1),
    };
    while !keeper.collect() {
        keeper.turn(&children);
    }
    tell(&mut keeper.control, &News::Empty);
    0
}

/// Subreaper; out of the agent's session; child signals as a descriptor; SIGPIPE ignored.
fn prepare(control: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: plain calls with numbers on descriptors this process owns.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::setsid();
        libc::fcntl(control.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        let flags = libc::fcntl(control.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(control.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
    crate::system::child_signals()
}

impl Keeper {
    /// Collects everything that has ended; true when nothing is left.
    fn collect(&mut self) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: the status outlives the call.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid == self.leader && !self.leader_ended {
                self.leader_ended = true;
                self.tell_exit(status);
            } else if pid == 0 {
                return false;
            } else if pid < 0 {
                return io::Error::last_os_error().kind() != io::ErrorKind::Interrupted;
            }
        }
    }

    fn tell_exit(&mut self, status: i32) {
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        let mut nothing: libc::siginfo_t = unsafe_zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the struct outlives the call; nothing is collected.
        let left = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut nothing, options) } == 0;
        tell(&mut self.control, &News::Exited { code, signal, left });
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self, children: &OwnedFd) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            tree::kill();
            self.kill_at = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(Duration::from_millis(50));
            if self.collect() {
                return;
            }
        }
        let timeout_ms = self.kill_at.map_or(-1, |at| {
            at.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000).min(60_000) as i32
        });
        let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(if self.alone { -1 } else { self.control.as_raw_fd() }), entry(children.as_raw_fd())];
        // SAFETY: two entries that live until the call returns.
        unsafe { libc::poll(entries.as_mut_ptr(), 2, timeout_ms) };
        if entries[1].revents != 0 {
            let _ = crate::system::read(children.as_raw_fd(), &mut [0; 2048]);
        }
        if entries[0].revents != 0 && !self.listen() {
            // The agent is gone, and with it whoever could want this tree.
            self.alone = true;
            self.end(Duration::ZERO);
        }
    }

    /// Reads orders; false when the agent is gone.
    fn listen(&mut self) -> bool {
        match crate::system::read_into(self.control.as_raw_fd(), &mut self.buffer, 4096) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        }
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if let Ok(order) = serde_json::from_slice(&line) {
                self.follow(&order);
            }
        }
        true
    }

    fn follow(&mut self, order: &Order) {
        match *order {
            Order::End { grace_ms } => {
                tree::signal(libc::SIGTERM);
                self.end(clock::span_ms(grace_ms));
            }
            Order::Away { ms } => self.kill_at = self.kill_at.map(|at| at + clock::span_ms(ms)),
            Order::Signal { order, signal, tree } => {
                let count = self.signal(signal, tree);
                tell(&mut self.control, &News::Signalled { order, count });
            }
        }
    }

    fn signal(&mut self, number: i32, tree: bool) -> usize {
        if tree {
            let count = tree::signal(number);
            if number == libc::SIGKILL {
                self.end(Duration::ZERO);
            }
            return count;
        }
        // SAFETY: takes numbers only; a leader that was not collected keeps its number.
        usize::from(!self.leader_ended && unsafe { libc::kill(self.leader, number) } == 0)
    }

    fn end(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }
}

fn unsafe_zeroed() -> libc::siginfo_t {
    // SAFETY: all zero is a valid siginfo_t.
    unsafe { std::mem::zeroed() }
}

fn tell(control: &mut UnixStream, news: &News) {
    let mut line = serde_json::to_vec(news).unwrap_or_default();
    line.push(b'\n');
    // The agent may be gone; then its end of file says so in the next turn.
    let _ = control.write_all(&line);
}
