//! Copies bytes between each TCP connection and a connection of its own to the unix socket.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A build opens a handful; beyond this a new connection is closed at once.
const MOST_CONNECTIONS: usize = 256;
const STACK_BYTES: usize = 128 * 1024;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Serves connections for ever.
pub(super) fn accept_all(listener: &TcpListener, unix: &Path) {
    for connection in listener.incoming() {
        match connection {
            Ok(tcp) if OPEN.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS => {
                let unix = unix.to_owned();
                let started = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                    if let Err(error) = forward(&tcp, &unix) {
                        eprintln!("sandpool-agent relay: cannot reach {unix:?}: {error}");
                    }
                    OPEN.fetch_sub(1, Ordering::Relaxed);
                });
                if started.is_err() {
                    OPEN.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(_) => {
                OPEN.fetch_sub(1, Ordering::Relaxed);
            }
            // Out of descriptors, most likely: existing connections free some.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn forward(tcp: &TcpStream, unix: &Path) -> io::Result<()> {
    let socket = UnixStream::connect(unix)?;
    let _ = tcp.set_nodelay(true);
    thread::scope(|scope| {
        let upward = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || {
            copy(tcp, &socket);
            // A half-closed connection stays open the other way.
            let _ = socket.shutdown(Shutdown::Write);
        });
        if upward.is_ok() {
            copy(&socket, tcp);
        }
        let _ = tcp.shutdown(Shutdown::Write);
        // The peer of a broken copy must not wait for bytes that nobody takes.
        if upward.is_err() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// Until end of file or an error of either side, which ends this direction alone.
fn copy(mut from: impl io::Read, mut to: impl io::Write) {
    let _ = io::copy(&mut from, &mut to);
}
