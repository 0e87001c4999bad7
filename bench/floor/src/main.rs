//! The native floor: one thread that writes a step to every environment, polls, and reads every answer. It checks
//! nothing, decodes nothing and serves nobody; what it reaches is what the environment processes themselves allow.
//!
//! Usage: `floor N SECONDS PROGRAM ARGUMENT…` where the program speaks the environment protocol on `SANDPOOL_FD` and
//! can fork. Prints one JSON object: the rows and the duration of each batch in microseconds.

mod environments;

use environments::{Environment, start};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, seconds, program @ ..] = arguments.as_slice() else {
        eprintln!("usage: floor N SECONDS PROGRAM ARGUMENT…");
        std::process::exit(2);
    };
    let rows: usize = rows.parse().expect("N: a number of environments");
    let seconds: f64 = seconds.parse().expect("SECONDS: how long to measure");

    let mut fleet = start(program, rows)?;
    let poller = Poller::new(&fleet.environments)?;
    batch(&poller, &mut fleet.environments, &mut |index, _| reset_line(index))?;
    let mut generator = 0x2545_f491_4f6c_dd1du64;
    let mut micros = Vec::new();
    let mut measure = |fleet: &mut Vec<Environment>, length: f64, keep: bool| -> io::Result<()> {
        let until = Instant::now() + Duration::from_secs_f64(length);
        while Instant::now() < until {
            generator ^= generator << 13;
            generator ^= generator >> 7;
            generator ^= generator << 17;
            let bits = generator;
            let began = Instant::now();
            // The step after an episode's end is its reset, as every contender in bench/ does it.
            batch(&poller, fleet, &mut |index, ended| {
                if ended { reset_line(index) } else { step_line((bits >> (index % 64)) & 1) }
            })?;
            if keep {
                micros.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(())
    };
    measure(&mut fleet.environments, seconds / 4.0, false)?;
    measure(&mut fleet.environments, seconds, true)?;
    fleet.stop();
    report(rows, &micros);
    Ok(())
}

fn report(rows: usize, micros: &[f64]) {
    let durations: Vec<String> = micros.iter().map(|one| format!("{one:.1}")).collect();
    println!("{{\"rows\":{rows},\"batches_us\":[{}]}}", durations.join(","));
}

/// One request to every environment and one answer from each.
fn batch(poller: &Poller, fleet: &mut [Environment], line: &mut dyn FnMut(usize, bool) -> String) -> io::Result<()> {
    for (index, environment) in fleet.iter_mut().enumerate() {
        environment.request(&line(index, environment.ended))?;
    }
    poller.collect(fleet)
}

fn reset_line(index: usize) -> String {
    format!("{{\"id\":%ID%,\"op\":\"reset\",\"seed\":{index},\"options\":null}}\n")
}

fn step_line(action: u64) -> String {
    format!("{{\"id\":%ID%,\"op\":\"step\",\"action\":{action}}}\n")
}

struct Poller {
    descriptor: i32,
}

impl Poller {
    fn new(fleet: &[Environment]) -> io::Result<Self> {
        // SAFETY: plain system calls on descriptors this process owns.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        for (index, environment) in fleet.iter().enumerate() {
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: index as u64 };
            if unsafe { libc::epoll_ctl(descriptor, libc::EPOLL_CTL_ADD, environment.stream.as_raw_fd(), &mut event) }
                != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { descriptor })
    }

    fn collect(&self, fleet: &mut [Environment]) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let mut missing = fleet.len();
        while missing > 0 {
            // SAFETY: the buffer is valid for its length.
            let count = unsafe { libc::epoll_wait(self.descriptor, events.as_mut_ptr(), events.len() as i32, 10_000) };
            if count <= 0 {
                return Err(io::Error::other(format!("{missing} environments did not answer within 10 s")));
            }
            for event in &events[..count as usize] {
                if fleet[event.u64 as usize].receive()? {
                    missing -= 1;
                }
            }
        }
        Ok(())
    }
}
