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
/// The same of those that have just finished, for whose output nobody could have asked yet.
const FRESH_BYTES: usize = 4 * REMEMBERED_BYTES;
/// Who starts many at once has asked for each one's end by then.
const FRESH: Duration = Duration::from_secs(10);
/// Who asks for an end first and for the output then, finds it for so long, whatever else has finished meanwhile.
const OWED: Duration = Duration::from_secs(60);

/// After KILL, a process that cannot be ended (in uninterruptible sleep) holds the call no longer than this.
const UNKILLABLE: Duration = Duration::from_secs(10);

impl Execs {
    /// Everything that is due is due that much later, and what lasts is shorter by it.
    pub fn move_deadlines(&mut self, away: Duration) {
        for exec in self.slots.values_mut() {
            exec.described.started += away;
            let moments =
                [&mut exec.deadline, &mut exec.drain_until, &mut exec.give_up_at, &mut exec.gone, &mut exec.owed];
            moments.into_iter().flatten().for_each(|at| *at += away);
            if let Some(keeper) = &mut exec.keeper {
                keeper.order(&Order::Away { ms: away.as_millis() as u64 });
            }
        }
    }

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
        let owed = |exec: &Exec| exec.owed.is_some_and(|since| since + OWED > now);
        let forgettable = self.execs.slots.iter().filter(|(_, exec)| finished(exec) && !owed(exec));
        let mut ends: Vec<(Option<Instant>, u32)> = forgettable.map(|(slot, exec)| (exec.gone, *slot)).collect();
        ends.sort_unstable();
        let mut bytes = 0;
        for (age, (_, slot)) in ends.iter().rev().enumerate() {
            let Some(exec) = self.execs.of_slot(*slot) else { continue };
            let fresh = exec.gone.is_some_and(|gone| gone + FRESH > now);
            if age >= REMEMBERED_EXECS && !fresh {
                self.execs.slots.remove(slot);
                continue;
            }
            bytes += exec.outputs().map(|output| output.kept.length()).sum::<usize>();
            let limit = if fresh { FRESH_BYTES } else { REMEMBERED_BYTES };
            if bytes > limit && age > 0 {
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
