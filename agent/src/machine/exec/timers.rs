//! Deadlines of programs, and how long finished ones are remembered. No reader has a part in them.

use super::{Exec, Execs};
use crate::machine::clock;
use crate::machine::keeper::Order;
use crate::machine::run::Machine;
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(600);
const REMEMBERED_EXECS: usize = 256;
/// Output that finished execs may keep together.
const REMEMBERED_BYTES: usize = 64 << 20;

/// After KILL, a process that cannot be ended (in uninterruptible sleep) holds the call no longer than this.
const UNKILLABLE: Duration = Duration::from_secs(10);

impl Execs {
    /// When the next of them is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.slots.values().filter_map(Exec::next_deadline).min()
    }
}

impl Exec {
    fn next_deadline(&self) -> Option<Instant> {
        let drain = self.drain_until.filter(|_| self.has_source());
        let remembered = self.gone.filter(|_| self.closed).map(|gone| gone + REMEMBERED);
        [self.deadline, drain, self.give_up_at, remembered].into_iter().flatten().min()
    }

    fn has_source(&self) -> bool {
        self.stdout.source.is_some() || self.stderr.as_ref().is_some_and(|errors| errors.source.is_some())
    }
}

impl Machine {
    /// Does what is due.
    pub(in crate::machine) fn exec_timers(&mut self, now: Instant) {
        let due = |exec: &Exec| exec.next_deadline().is_some_and(|at| at <= now);
        let slots: Vec<u32> = self.execs.slots.iter().filter(|(_, exec)| due(exec)).map(|(slot, _)| *slot).collect();
        for slot in slots {
            let Some(exec) = self.execs.of_slot(slot) else { continue };
            if exec.deadline.is_some_and(|at| at <= now) {
                exec.time_out();
            }
            self.exec_settle(slot);
            let Some(exec) = self.execs.of_slot(slot) else { continue };
            exec.drain_until = exec.drain_until.filter(|&at| at > now);
            exec.give_up_at = exec.give_up_at.filter(|&at| at > now);
        }
        self.forget_old(now);
    }

    fn forget_old(&mut self, now: Instant) {
        let finished = |exec: &Exec| exec.closed && exec.gone.is_some();
        self.execs.slots.retain(|_, exec| !finished(exec) || exec.gone.is_none_or(|gone| gone + REMEMBERED > now));
        let slots: Vec<u32> =
            self.execs.slots.iter().filter(|(_, exec)| finished(exec)).map(|(slot, _)| *slot).collect();
        let mut bytes = 0;
        for (age, slot) in slots.iter().rev().enumerate() {
            if age >= REMEMBERED_EXECS {
                self.execs.slots.remove(slot);
                continue;
            }
            let Some(exec) = self.execs.of_slot(*slot) else { continue };
            bytes += exec.outputs().map(|output| output.kept.length()).sum::<usize>();
            if bytes > REMEMBERED_BYTES && age > 0 {
                exec.outputs().for_each(|output| output.kept.clear());
            }
        }
    }
}

impl Exec {
    fn time_out(&mut self) {
        self.deadline = None;
        if self.leader.is_some() && self.closed {
            return;
        }
        self.timed_out = true;
        let grace_ms = self.described.grace_ms;
        self.give_up_at = Some(clock::after_ms(grace_ms) + UNKILLABLE);
        if let Some(keeper) = &mut self.keeper {
            keeper.order(&Order::End { grace_ms });
        }
    }
}
