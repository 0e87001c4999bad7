//! `port.dial`

use super::{Port, connect};
use crate::channel::error::RequestError;
use crate::machine::poller::{Source, Watched};
use crate::machine::run::{Answered, Machine, Ticket};
use serde::Deserialize;
use serde_json::json;
use std::io;

/// The head of the request. `in` flows to the program, `out` from it.
#[derive(Debug, Deserialize)]
pub struct Dialling {
    port: u16,
    #[serde(rename = "in")]
    input: u64,
    out: u64,
}

impl Machine {
    /// Connects to 127.0.0.1, then to ::1; answered once the connection stands or is refused.
    pub(in crate::machine) fn port_dial(
        &mut self,
        ticket: Ticket,
        request: &Dialling,
    ) -> Result<Answered, RequestError> {
        if request.port == 0 {
            return Err(RequestError::invalid("port is 0; expected 1 to 65535"));
        }
        self.streams.check_all_free(&[request.input, request.out])?;
        let (socket, fallback) = match connect::begin(request.port, false) {
            Ok(socket) => (socket, true),
            Err(first) => (connect::begin(request.port, true).map_err(|_| refused(request.port, &first))?, false),
        };
        let slot = self.ports.next_slot;
        self.ports.next_slot = slot.wrapping_add(1);
        let watched = Watched::new(socket, &self.poller, Source::Port(slot));
        let socket = watched.map_err(|error| refused(request.port, &error))?;
        let out = self.streams.add_outgoing(request.out, false)?;
        let input = self.streams.add_incoming(request.input)?;
        let port = Port {
            number: request.port,
            socket,
            dialling: Some(ticket),
            fallback,
            out: Some(out),
            out_stream: request.out,
            input: Some(input),
        };
        self.ports.slots.insert(slot, port);
        Ok(Answered::Later)
    }

    /// A dialled socket is ready: the connection stands, or the next address is tried, or it is refused.
    pub(super) fn port_dialled(&mut self, slot: u32) {
        let Some(port) = self.ports.slots.get_mut(&slot) else { return };
        let Some(ticket) = port.dialling else { return };
        let Err(error) = connect::outcome(port.socket.raw()) else {
            port.dialling = None;
            let stream = port.out_stream;
            self.reply(ticket, Ok(json!({}).into()));
            self.streams.open(stream);
            return;
        };
        if std::mem::take(&mut port.fallback)
            && let Ok(socket) = connect::begin(port.number, true)
            && let Ok(socket) = Watched::new(socket, &self.poller, Source::Port(slot))
        {
            port.socket = socket;
            return;
        }
        let (number, stream) = (port.number, port.out_stream);
        let input = port.input.take();
        self.ports.slots.remove(&slot);
        self.streams.discard(stream);
        input.iter().for_each(|input| input.close());
        self.reply(ticket, Err(refused(number, &error)));
    }
}

fn refused(port: u16, error: &io::Error) -> RequestError {
    RequestError::new("port_refused", format!("port {port} inside the machine: {error}"))
        .with_details(json!({"port": port, "errno": error.raw_os_error()}))
        .with_hint("start a program that listens on that port of 127.0.0.1, ::1 or all addresses")
}
