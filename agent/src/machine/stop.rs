//! `stop`: TERM to all programs, KILL to what is left, the answer, the end.

use super::clock;
use super::exec::Exec;
use super::keeper::Order;
use super::run::{Answered, Machine, Ticket};
use crate::channel::error::RequestError;
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};

const DEFAULT_MS: u64 = 10_000;
/// After KILL, what cannot be ended dies with the sandbox.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// For the last answer to leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct StopRequest {
    #[serde(default)]
    ms: Option<u64>,
}

/// An end in progress.
pub struct Stopping {
    ticket: Option<Ticket>,
    give_up_at: Instant,
    answered: bool,
}

impl Stopping {
    /// Its end is given up that much later.
    pub fn move_deadline(&mut self, away: Duration) {
        self.give_up_at += away;
    }

    /// When it is looked at again.
    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.give_up_at)
    }
}

impl Machine {
    /// Ends all programs, then the agent.
    pub(super) fn stop(&mut self, ticket: Ticket, request: &StopRequest) -> Result<Answered, RequestError> {
        self.begin_stop(Some(ticket), clock::span_ms(request.ms.unwrap_or(DEFAULT_MS)));
        Ok(Answered::Later)
    }

    pub(super) fn begin_stop(&mut self, ticket: Option<Ticket>, grace: Duration) {
        self.execs.order_all(&Order::End { grace_ms: grace.as_millis() as u64 });
        let give_up_at = Instant::now() + grace + UNKILLABLE;
        self.stopping = Some(Stopping { ticket, give_up_at, answered: false });
    }

    /// The exit code, once everything has ended and the answer has left.
    pub(super) fn stop_tick(&mut self, now: Instant) -> Option<i32> {
        let empty = self.execs.all().all(Exec::is_finished);
        let stopping = self.stopping.as_mut()?;
        if !stopping.answered && (empty || stopping.give_up_at <= now) {
            stopping.answered = true;
            stopping.give_up_at = now + FAREWELL;
            if let Some(ticket) = stopping.ticket {
                self.reply(ticket, Ok(json!({}).into()));
            }
            self.connection.flush();
        }
        let stopping = self.stopping.as_ref()?;
        let left = self.connection.flush() || stopping.give_up_at <= now;
        if stopping.answered && left {
            return Some(0);
        }
        self.connection.watch();
        None
    }
}
