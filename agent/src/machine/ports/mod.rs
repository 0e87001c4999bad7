//! Connections to programs that listen inside.

mod connect;
mod dial;
mod list;
mod relay;

use super::poller::Watched;
use super::run::Ticket;
use super::streams::{Inbound, Outbound};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All connections of the present worker.
#[derive(Default)]
pub struct Ports {
    slots: BTreeMap<u32, Port>,
    next_slot: u32,
}

/// One connection.
struct Port {
    number: u16,
    socket: Watched,
    /// The dial's request, until the connection stands.
    dialling: Option<Ticket>,
    /// The address that comes next if this one refuses.
    fallback: bool,
    /// From the program to the worker.
    out: Option<Arc<Outbound>>,
    out_stream: u64,
    /// From the worker to the program.
    input: Option<Arc<Inbound>>,
}
