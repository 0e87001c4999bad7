//! `port.list`

use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::work::Order;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;

const LISTENING: &str = "0A";

impl Machine {
    /// Listening TCP ports: `{"ports":[{"port","pid"}]}`, pid null where it cannot be known.
    pub(in crate::machine) fn port_list(&mut self, ticket: Ticket) -> Result<Answered, RequestError> {
        self.work(ticket, None, Order::default(), || Ok(json!({"ports": listening()})))
    }
}

fn listening() -> Vec<Value> {
    let mut ports = BTreeMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            if let Some((port, inode)) = entry(line) {
                ports.entry(port).or_insert(inode);
            }
        }
    }
    let owners = if ports.is_empty() { HashMap::new() } else { socket_owners() };
    ports.into_iter().map(|(port, inode)| json!({"port": port, "pid": owners.get(&inode)})).collect()
}

/// Port and inode of a listening socket's line.
fn entry(line: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let port = u16::from_str_radix(address.rsplit(':').next()?, 16).ok()?;
    (*state == LISTENING).then_some((port, inode.parse().ok()?))
}

fn socket_owners() -> HashMap<u64, i32> {
    let mut owners = HashMap::new();
    for process in crate::machine::processes::all() {
        for descriptor in fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else { continue };
            let name = target.to_string_lossy();
            let inode = name.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
                owners.entry(inode).or_insert(process.pid);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn only_listening_sockets_count() {
        let listening =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0";
        assert_eq!(entry(listening), Some((8080, 4242)));
        assert_eq!(entry(&listening.replace(" 0A ", " 01 ")), None);
        assert_eq!(entry("nonsense"), None);
    }
}
