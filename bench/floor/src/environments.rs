//! Environment processes forked from one template, as the agent forks them, without isolation.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

pub struct Environment {
    pub stream: UnixStream,
    pub ended: bool,
    id: u64,
    buffer: Box<[u8; 65536]>,
    filled: usize,
}

pub struct Fleet {
    pub environments: Vec<Environment>,
    template: Child,
}

impl Fleet {
    /// Closing a channel ends its environment; the template is this process's own child.
    pub fn stop(mut self) {
        self.environments.clear();
        let _ = self.template.kill();
        let _ = self.template.wait();
    }
}

pub fn start(program: &[String], rows: usize) -> io::Result<Fleet> {
    let (channel, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null()).env("SANDPOOL_FD", "3");
    for variable in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"] {
        command.env(variable, "1");
    }
    let inherited = theirs.as_raw_fd();
    // SAFETY: dup2 is async-signal-safe.
    unsafe {
        command.pre_exec(move || if libc::dup2(inherited, 3) == 3 { Ok(()) } else { Err(io::Error::last_os_error()) });
    }
    let template = command.spawn()?;
    drop(theirs);
    let mut answers = Lines::new(channel.try_clone()?);
    (&channel).write_all(
        format!("{{\"id\":1,\"op\":\"hello\",\"protocol\":1,\"template\":true,\"index\":null,\"n\":{rows},\"rows\":1,\"workspace\":null,\"config\":null,\"config_per_row\":false}}\n").as_bytes(),
    )?;
    answers.next()?;
    let mut environments = Vec::with_capacity(rows);
    for index in 0..rows {
        environments.push(fork(&channel, index)?);
        answers.next()?;
    }
    for environment in &mut environments {
        Lines::new(environment.stream.try_clone()?).next()?;
        environment.stream.set_nonblocking(true)?;
    }
    Ok(Fleet { environments, template })
}

fn fork(channel: &UnixStream, index: usize) -> io::Result<Environment> {
    let (ours, theirs) = UnixStream::pair()?;
    let stderr = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    let line = format!(
        "{{\"id\":{},\"op\":\"fork\",\"index\":{index},\"workspace\":\"/tmp\",\"uid\":0,\"gid\":0,\"memory\":null,\"rlimits\":{{\"as\":null,\"nproc\":null}},\"isolated\":false,\"branching\":true,\"reseed\":null}}\n",
        index + 2
    );
    send_descriptors(channel.as_raw_fd(), line.as_bytes(), &[theirs.as_raw_fd(), stderr.as_raw_fd()])?;
    Ok(Environment { stream: ours, ended: false, id: 0, buffer: Box::new([0; 65536]), filled: 0 })
}

impl Environment {
    pub fn request(&mut self, line: &str) -> io::Result<()> {
        self.id += 1;
        let text = line.replacen("%ID%", &self.id.to_string(), 1);
        (&self.stream).write_all(text.as_bytes())
    }

    /// True when the answer is whole: a line and the raw bytes that it announces.
    pub fn receive(&mut self) -> io::Result<bool> {
        let count = (&self.stream).read(&mut self.buffer[self.filled..])?;
        if count == 0 {
            return Err(io::Error::other("an environment ended"));
        }
        self.filled += count;
        let seen = &self.buffer[..self.filled];
        let Some(end) = seen.iter().position(|&byte| byte == b'\n') else { return Ok(false) };
        let line = &seen[..end];
        if self.filled < end + 1 + raw_length(line) {
            return Ok(false);
        }
        self.ended = find(line, b"\"terminated\":true").is_some() || find(line, b"\"truncated\":true").is_some();
        self.filled = 0;
        Ok(true)
    }
}

fn raw_length(line: &[u8]) -> usize {
    let Some(at) = find(line, b"\"raw\":") else { return 0 };
    line[at + 6..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Reads a line byte by byte, so that nothing behind it is taken: only for the few lines of the start.
struct Lines {
    stream: UnixStream,
}

impl Lines {
    fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    fn next(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            if self.stream.read(&mut byte)? == 0 {
                return Err(io::Error::other("the program ended before it answered"));
            }
            if byte[0] == b'\n' {
                break;
            }
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if text.contains("\"error\"") { Err(io::Error::other(text)) } else { Ok(text) }
    }
}

fn send_descriptors(socket: i32, bytes: &[u8], descriptors: &[i32; 2]) -> io::Result<()> {
    let mut control = [0u8; 64];
    let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the message and its control buffer live until sendmsg returns; the buffer has room for two descriptors.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(8) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(8) as usize;
        std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(header).cast::<i32>(), 2);
        libc::sendmsg(socket, &message, 0)
    };
    if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}
