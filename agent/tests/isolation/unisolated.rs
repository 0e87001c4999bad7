//! The mode without isolation, outside any container.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sandpool_agent::isolation::{ChildFds, Isolation, Program, Settings};

fn settings(workspaces: Option<PathBuf>) -> Settings {
    Settings {
        isolated: false,
        base_uid: 10_000,
        n: 8,
        states: 16,
        states_memory: None,
        template_uid: 1000,
        workspace_bytes: 1 << 20,
        workspace_inodes: 100,
        memory_bytes: 1 << 30,
        shard_memory_bytes: None,
        memory_dir: None,
        own_groups: false,
        processes: 64,
        workspaces,
        branching: true,
    }
}

#[test]
fn workspaces_must_be_an_absolute_path() {
    let error = Isolation::new(settings(Some("rows".into()))).err().expect("refused");
    assert!(error.to_string().contains("workspaces is Some(\"rows\")"), "{error}");
}

#[test]
fn uids_are_counted_by_processes_then_by_saved_states_then_by_copies() {
    let isolation = Isolation::new(settings(Some("/tmp".into()))).expect("no right is needed");
    let uids = |row: u32| {
        let id = isolation.identity(row, 0, 1);
        let other = isolation.other_identity(&id);
        (id.uid, isolation.state_identity(15, row).uid, other.uid, isolation.other_identity(&other).uid)
    };
    assert_eq!(uids(6), (10_006, 10_023, 10_030, 10_006));
    // Rows 0 to 2, 3 to 5, and 6 and 7.
    isolation.share(3);
    assert_eq!(uids(6), (10_002, 10_018, 10_021, 10_002));
}

#[test]
fn a_program_gets_its_folders_its_channel_and_a_session_and_is_killed() {
    let folder = std::env::temp_dir().join(format!("sandpool-unisolated-{}", std::process::id()));
    let isolation = Isolation::new(settings(Some(folder.clone()))).expect("no right is needed");
    let id = isolation.identity(3, 0, 1);
    isolation.create_workspace(&id).expect("a workspace");
    let (channel, theirs) = UnixStream::pair().expect("a pair");
    let (mut output, their_output) = UnixStream::pair().expect("a pair");
    let script = "echo $HOME $TMPDIR $SANDPOOL_FD >&1; pwd >&3; sleep 1000 & wait";
    let program = Program {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: id.workspace.join("workspace").to_string_lossy().into_owned(),
        environ: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), "/wrong".into())],
    };
    let fds = ChildFds {
        stdin: their_output.as_raw_fd(),
        stdout: their_output.as_raw_fd(),
        stderr: their_output.as_raw_fd(),
        channel: theirs.as_raw_fd(),
    };
    isolation.spawn_environment(&program, &id, &fds).expect("started");
    drop((theirs, their_output));
    let row = folder.join("3");
    assert_eq!(first_line(&channel), row.join("workspace").to_string_lossy());
    let report = isolation.kill_everything(&id).expect("killed");
    assert!(report.complete(), "{report:?}");
    let mut text = String::new();
    // Ends only because every process that held the other end is gone.
    output.read_to_string(&mut text).expect("text");
    let (home, temporary) = (row.join("workspace"), row.join("tmp"));
    assert_eq!(text, format!("{} {} 3\n", home.display(), temporary.display()));
    isolation.remove_workspace(&id).expect("removed");
    assert!(!row.exists());
    std::fs::remove_dir(&folder).expect("empty");
}

fn first_line(mut channel: &UnixStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while channel.read(&mut byte).is_ok_and(|count| count == 1) && byte != *b"\n" {
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}
