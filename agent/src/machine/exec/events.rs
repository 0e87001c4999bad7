//! What a keeper says, and what follows from it.

use super::{Exec, Keeper, LeaderExit};
use crate::machine::keeper::{News, Order};
use crate::machine::processes;
use crate::machine::run::Machine;
use crate::machine::streams::Streams;
use serde_json::json;
use std::io;
use std::time::{Duration, Instant};

/// How long a pipe that something else holds open is read after the leader's end.
const DRAIN: Duration = Duration::from_millis(50);

impl Keeper {
    /// Sends an order, or keeps it until the socket takes it.
    pub(super) fn order(&mut self, order: &Order) {
        let mut line = serde_json::to_vec(order).unwrap_or_default();
        line.push(b'\n');
        self.unsent.extend(line);
        self.flush();
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match crate::system::write(self.control.raw(), &self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It is gone; its end of file says so.
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Reads what it has said; `None` once it is gone.
    fn listen(&mut self) -> Option<Vec<News>> {
        self.flush();
        let open = loop {
            match crate::system::read_into(self.control.raw(), &mut self.buffer, 4096) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        let end = self.buffer.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.buffer.drain(..end).collect();
        let news: Vec<News> =
            lines.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        (open || !news.is_empty()).then_some(news)
    }
}

impl Machine {
    /// A keeper has something to say.
    pub(in crate::machine) fn exec_news(&mut self, slot: u32) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        let Some(keeper) = &mut exec.keeper else { return };
        match keeper.listen() {
            Some(news) => news.into_iter().for_each(|news| self.exec_heard(slot, news)),
            None => self.exec_keeper_gone(slot),
        }
        self.exec_settle(slot);
    }

    fn exec_heard(&mut self, slot: u32, news: News) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        match news {
            News::Started { pid } => {
                exec.pid = Some(pid);
                let (starting, started_at) = (exec.starting.take(), exec.described.started_at_ms);
                let streams: Vec<u64> = exec.outputs().flat_map(|output| output.readers.clone()).collect();
                if let Some(ticket) = starting {
                    self.reply(ticket, Ok(json!({"pid": pid, "started_at": started_at}).into()));
                }
                streams.into_iter().for_each(|stream| self.streams.open(stream));
            }
            News::Failed { errno, what } => self.exec_never_ran(slot, errno, &what),
            News::Exited { code, signal, left } => {
                let killed = signal == Some(libc::SIGKILL) && !exec.timed_out;
                exec.oom_killed |= killed && self.memory.kernel_has_killed();
                exec.leader_ended(code, signal, left);
            }
            News::Signalled { order, count } => {
                if let Some(ticket) = exec.orders.remove(&order) {
                    self.reply(ticket, Ok(json!({"signalled": count}).into()));
                }
            }
            News::Empty => exec.end_keeper(),
        }
    }

    /// Nothing ran: the answer is the error, and nothing is listed.
    fn exec_never_ran(&mut self, slot: u32, errno: i32, what: &str) {
        let Some(mut exec) = self.execs.slots.remove(&slot) else { return };
        for output in exec.outputs() {
            output.readers.iter().for_each(|&stream| self.streams.discard(stream));
        }
        if let Some(ticket) = exec.starting {
            let described = &exec.described;
            let subject = match what {
                "cwd" => format!("working directory {:?}", described.cwd.as_deref().unwrap_or("/")),
                "user" => format!("user {}", described.user),
                _ => format!("program {:?}", described.argv[0]),
            };
            let reason = io::Error::from_raw_os_error(errno);
            let error = super::start::failed(errno, what, format!("exec {}: {subject}: {reason}", exec.id));
            self.reply(ticket, Err(error));
        }
    }

    /// The keeper is gone without having said that nothing is left: somebody has killed it.
    fn exec_keeper_gone(&mut self, slot: u32) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        if exec.starting.is_some() {
            self.exec_never_ran(slot, libc::ECHILD, "keeper");
            return;
        }
        exec.lost = exec.leader.is_none();
        if exec.lost {
            exec.leader_ended(None, None, false);
        }
        exec.end_keeper();
        self.kill_orphans();
    }

    /// What a killed keeper left comes to this process; it belongs to no exec any more.
    fn kill_orphans(&self) {
        let keepers: Vec<i32> = self.execs.all().filter_map(Exec::keeper_pid).collect();
        let all = processes::all();
        let own = std::process::id().cast_signed();
        let orphans = all.iter().filter(|process| process.parent == own && !keepers.contains(&process.pid));
        for orphan in orphans {
            for process in processes::descendants(&all, orphan.pid).iter().chain([orphan]) {
                // SAFETY: takes numbers only; the process was seen below this one a moment ago.
                unsafe { libc::kill(process.pid, libc::SIGKILL) };
            }
        }
    }

    /// Signals that came when nothing was left.
    fn exec_answer_orders(&mut self, slot: u32) {
        let Some(exec) = self.execs.of_slot(slot).filter(|exec| exec.keeper.is_none()) else { return };
        for ticket in std::mem::take(&mut exec.orders).into_values() {
            self.reply(ticket, Ok(json!({"signalled": 0}).into()));
        }
    }

    /// Sees whether the call has ended, and what is to be waited for.
    pub(in crate::machine) fn exec_settle(&mut self, slot: u32) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        let now = Instant::now();
        if !exec.closed && exec.call_has_ended(now) {
            exec.closed = true;
            exec.deadline = None;
            exec.left |= exec.timed_out && exec.gone.is_none();
            exec.outputs().for_each(|output| output.owed_bytes = 0);
            exec.end_readers(&mut self.streams);
            let feed = exec.end_input();
            let waits = std::mem::take(&mut exec.waits);
            if let Some((ticket, bytes)) = feed {
                self.reply(ticket, Ok(json!({"bytes": bytes}).into()));
            }
            waits.into_iter().for_each(|wait| self.exec_answer(slot, &wait));
        }
        self.exec_answer_orders(slot);
        let Some(exec) = self.execs.of_slot(slot) else { return };
        let drained = exec.drain_until.is_none_or(|until| until <= now);
        if exec.closed && exec.gone.is_some() {
            // What holds the pipe now is no descendant: somebody was handed the descriptor.
            exec.outputs().filter(|output| drained && output.owed_bytes == 0).for_each(|output| output.source = None);
            let streams = &mut self.streams;
            exec.outputs().filter(|output| output.source.is_none()).for_each(|output| output.end_readers(streams));
            exec.terminal = None;
        }
        exec.watch(&self.streams);
    }
}

impl Exec {
    fn leader_ended(&mut self, code: Option<i32>, signal: Option<i32>, left: bool) {
        let duration_ms = self.described.started.elapsed().as_millis() as u64;
        self.leader = Some(LeaderExit { code, signal, duration_ms });
        self.left = left;
        self.drain_until = Some(Instant::now() + DRAIN);
        self.outputs().for_each(super::Output::owe_rest);
    }

    fn end_keeper(&mut self) {
        let now = Instant::now();
        self.keeper = None;
        self.left = false;
        self.gone = Some(now);
        self.drain_until = Some(now + DRAIN);
        self.give_up_at = None;
    }

    /// The leader has ended and what it wrote is read; after a timeout the whole tree has ended.
    fn call_has_ended(&mut self, now: Instant) -> bool {
        if self.give_up_at.is_some_and(|at| at <= now) {
            return true;
        }
        if self.leader.is_none() || (self.timed_out && self.gone.is_none()) {
            return false;
        }
        let drained = self.drain_until.is_none_or(|until| until <= now);
        self.outputs().all(|output| output.source.is_none() || (drained && output.owed_bytes == 0))
    }

    fn end_readers(&mut self, streams: &mut Streams) {
        self.outputs().for_each(|output| output.end_readers(streams));
    }
}
