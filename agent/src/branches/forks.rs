//! Fork lines on their way to their sources.

use super::phase::Site;
use crate::event_loop::{Source, Token};
use crate::shard::Shard;
use std::io;

impl Shard {
    /// Sends all that was made ready: those for one source as one, each but the last announcing more.
    pub(super) fn send_made_forks(&mut self) {
        let count = self.branches.phase.as_ref().map_or(0, |phase| phase.origins.len());
        for number in 0..count {
            let Some(phase) = &mut self.branches.phase else {
                return;
            };
            let open = phase.origins[number].unsent.iter_mut().filter(|line| !line.bytes.ends_with(b"\n"));
            let mut open: Vec<_> = open.collect();
            let Some(last) = open.pop() else {
                continue;
            };
            last.bytes.extend_from_slice(b"}\n");
            open.into_iter().for_each(|line| line.bytes.extend_from_slice(b",\"more\":true}\n"));
            self.send_forks_to(number);
        }
    }

    /// Sends a source its fork lines as far as its socket takes them.
    pub(super) fn send_forks_to(&mut self, number: usize) {
        let site = self.branches.phase.as_ref().map(|phase| phase.origins[number].site);
        let Some(socket) = site.and_then(|site| self.process_of(site)).map(|process| process.stream.writing()) else {
            return;
        };
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let origin = &mut phase.origins[number];
        while let Some(line) = origin.unsent.front_mut() {
            match line.send(socket) {
                Ok(true) => drop(origin.unsent.pop_front()),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The end of its stream follows, and with it the reason.
                Err(_) => return,
            }
        }
        let blocked = !origin.unsent.is_empty();
        let _ = match origin.site {
            Site::Row(local) => {
                let (number, epoch) = (self.rows[local].pack, self.packs[self.rows[local].pack].epoch);
                let token = Token::of_pack(Source::Pack, number, epoch);
                if blocked { self.poller.change_edge(socket, token, true) } else { Ok(()) }
            }
            Site::State(slot) => match self.state_key(slot) {
                Some(key) => {
                    let token = Token::of_pack(Source::Copy, key as usize, 0);
                    self.poller.change_level(socket, token, blocked)
                }
                None => Ok(()),
            },
        };
    }

    /// A row's socket takes more.
    pub(crate) fn send_more_forks(&mut self, number: usize) {
        let site = Site::Row(self.packs[number].rows.start);
        if let Some(origin) = self.branches.phase.as_ref().and_then(|phase| phase.origin_at(site)) {
            self.send_forks_to(origin);
        }
    }
}
